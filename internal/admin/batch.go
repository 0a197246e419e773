package admin

import (
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// maxBatch is the most items in one request.
const maxBatch = 1000

// batch is a body of 1 to maxBatch items.
type batch[T any] []T

// Schema describes the array.
func (batch[T]) Schema(r huma.Registry) *huma.Schema {
	least, most := 1, maxBatch
	return &huma.Schema{Type: huma.TypeArray, Items: r.Schema(reflect.TypeFor[T](), true, ""), MinItems: &least, MaxItems: &most}
}

// place returns the name of an item of a batch in faults.
func place(i int) string { return fmt.Sprintf("body[%d]", i) }
