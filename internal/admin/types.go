package admin

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/jsonapi"
)

// What the API of the other end has too.
type (
	// Problem is an answer that says what went wrong.
	Problem = jsonapi.Problem
	// Detail names one fault of a request.
	Detail = jsonapi.Detail
	// Time is a moment in milliseconds since 1970 UTC.
	Time = jsonapi.Time
	// Duration is a span of time in Go's notation.
	Duration = jsonapi.Duration
	// Secret is a text that is shown to its owner alone.
	Secret = jsonapi.Secret
	// FeedOptions says where a reader of a feed stands.
	FeedOptions = jsonapi.FeedOptions
)

// Patch is one member of a request that changes some members and leaves the
// others: absent, null, or a value.
type Patch[T any] struct {
	Set   bool // the member is there
	Null  bool // it is null: the optional setting is cleared
	Value T
}

// Change gives the Patch that sets a member to v.
func Change[T any](v T) Patch[T] { return Patch[T]{Set: true, Value: v} }

// Clear gives the Patch that sets an optional member back to its default.
func Clear[T any]() Patch[T] { return Patch[T]{Set: true, Null: true} }

// IsZero leaves an absent member out of the JSON.
func (p Patch[T]) IsZero() bool { return !p.Set }

// MarshalJSON writes null or the value.
func (p Patch[T]) MarshalJSON() ([]byte, error) {
	if p.Null {
		return []byte("null"), nil
	}
	return json.Marshal(p.Value)
}

// UnmarshalJSON notes that the member is there.
func (p *Patch[T]) UnmarshalJSON(b []byte) error {
	p.Set = true
	if string(b) == "null" {
		p.Null = true
		return nil
	}
	return json.Unmarshal(b, &p.Value)
}

// Schema is that of the value. An object may always be null; for the other
// kinds the field's tag says so.
func (Patch[T]) Schema(r huma.Registry) *huma.Schema {
	s := r.Schema(reflect.TypeFor[T](), true, "")
	if s.Ref != "" {
		return &huma.Schema{OneOf: []*huma.Schema{s, {Type: "null"}}}
	}
	s.Nullable = false
	return s
}

// page is where a reader of a list stands.
type page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most entries to answer"`
	Cursor string `query:"cursor" maxLength:"300" doc:"the member next of the page before"`
}

// feed is where a reader of a feed stands.
type feed struct {
	After int64    `query:"after" minimum:"0" default:"0" doc:"the last sequence number that the reader has"`
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most entries to answer"`
	Wait  Duration `query:"wait" doc:"how long to wait for an entry where there is none, at most 60s"`
}
