package admin

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
)

const typeNull = "null" // of JSON Schema

// shapeSettings derives from the one description of a merchant's settings how a new merchant, a change and an answer
// differ: what is required, what may be null, and which defaults apply.
func shapeSettings(reg huma.Registry) {
	of := func(t reflect.Type) *huma.Schema { return reg.SchemaFromRef(reg.Schema(t, true, "").Ref) }
	fresh, patch := of(reflect.TypeFor[client.NewMerchant]()), of(reflect.TypeFor[client.MerchantPatch]())
	patch.Required = nil
	for _, s := range client.Settings() {
		if s.None != "" {
			fresh.Properties[s.Name].Description += "; absent: " + s.None
		}
		if s.None == s.Default && s.Type.Kind() == reflect.Int {
			fresh.Properties[s.Name].Default = json.Number(s.Default)
		} else if s.None == s.Default && s.Default != "" {
			fresh.Properties[s.Name].Default = s.Default
		}
		if s.Clears {
			patch.Properties[s.Name] = orNull(reg, patch.Properties[s.Name], "; null: "+s.None)
		}
	}
	for _, t := range []reflect.Type{reflect.TypeFor[client.Merchant](), reflect.TypeFor[client.CreatedMerchant](),
		reflect.TypeFor[client.UpdatedMerchant]()} {
		answer := of(t)
		for _, s := range client.Settings() {
			if !s.Clears && !s.Secret || s.Default != "" {
				answer.Properties[s.Name].Nullable = false
				if !slices.Contains(answer.Required, s.Name) {
					answer.Required = append(answer.Required, s.Name)
				}
			}
		}
	}
}

// orNull describes a member of a patch that may be null. An object without required members is changed member by
// member; any other is replaced.
func orNull(reg huma.Registry, s *huma.Schema, text string) *huma.Schema {
	s.Description += text
	if s.Ref == "" {
		s.Nullable = true
		return s
	}
	object := *reg.SchemaFromRef(s.Ref)
	if len(object.Required) > 0 {
		return &huma.Schema{Description: s.Description, OneOf: []*huma.Schema{{Ref: s.Ref}, {Type: typeNull}}}
	}
	object.Properties = maps.Clone(object.Properties)
	for name, member := range object.Properties {
		member := *member
		object.Properties[name] = orNull(reg, &member, "; null: the default")
	}
	return &huma.Schema{Description: s.Description, OneOf: []*huma.Schema{&object, {Type: typeNull}}}
}
