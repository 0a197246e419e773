package admin

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// param is one query parameter of a route, told by a field of its query type.
type param struct {
	name     string
	index    []int
	schema   *huma.Schema
	required bool
	fallback string
}

// paramsOf lists the fields with a query tag, those of embedded structs too.
// The field's other tags are those of the schemas.
func paramsOf(reg huma.Registry, t reflect.Type) []param {
	var list []param
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("query")
		if name == "" {
			continue
		}
		list = append(list, param{
			name:     name,
			index:    f.Index,
			schema:   huma.SchemaFromField(reg, f, ""),
			required: f.Tag.Get("required") == "true",
			fallback: f.Tag.Get("default"),
		})
	}
	return list
}

// readQuery fills the struct that v points to. Parameters that are unknown,
// twice there, or against their schema are faults.
func readQuery(params []param, query url.Values, v reflect.Value) []Detail {
	var faults []Detail
	names := make([]string, 0, len(query))
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.ContainsFunc(params, func(p param) bool { return p.name == name }) && len(faults) < maxFaults {
			faults = append(faults, Detail{"query." + printable(name), "is not known here"})
		}
	}
	for _, p := range params {
		values := query[p.name]
		text := p.fallback
		switch {
		case len(values) > 1:
			faults = append(faults, Detail{"query." + p.name, "is there twice"})
			continue
		case len(values) == 1:
			text = values[0]
			if problem := checkParam(p.schema, text); problem != "" {
				faults = append(faults, Detail{"query." + p.name, problem})
				continue
			}
		case p.required:
			faults = append(faults, Detail{"query." + p.name, "is missing"})
			continue
		}
		if text != "" {
			setField(v.FieldByIndex(p.index), text)
		}
	}
	return faults
}

func checkParam(s *huma.Schema, text string) string {
	switch {
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case s.Type == huma.TypeInteger:
		if !json.Valid([]byte(text)) {
			return "is not a whole number"
		}
		return checkNumber(s, text)
	default:
		return checkText(s, text)
	}
}

// setField sets a field to a text that has been checked. The kinds are those
// that query types use.
func setField(f reflect.Value, text string) {
	switch f.Interface().(type) {
	case string:
		f.SetString(text)
	case int, int64:
		n, _ := strconv.ParseInt(text, 10, 64)
		f.SetInt(n)
	case Duration:
		d, _ := time.ParseDuration(text)
		f.SetInt(int64(d))
	default:
		panic("query parameter of type " + f.Type().String())
	}
}
