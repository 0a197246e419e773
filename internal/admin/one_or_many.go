package admin

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/api"
)

// oneOrMany is a body that is one object or an array of them.
type oneOrMany[T any] struct {
	list  []T
	array bool
}

// place returns the name of an item in faults.
func (d *oneOrMany[T]) place(i int) string {
	if !d.array {
		return "body"
	}
	return fmt.Sprintf("body[%d]", i)
}

// Schema describes both forms.
func (oneOrMany[T]) Schema(r huma.Registry) *huma.Schema {
	one := r.Schema(reflect.TypeFor[T](), true, "")
	api.BoundDurations(r, one, reflect.TypeFor[T]())
	least, most := 1, maxBatch
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MinItems: &least, MaxItems: &most}}}
}

// UnmarshalJSON reads either form.
func (d *oneOrMany[T]) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		d.array = true
		return json.Unmarshal(b, &d.list)
	}
	d.list = make([]T, 1)
	return json.Unmarshal(b, &d.list[0])
}
