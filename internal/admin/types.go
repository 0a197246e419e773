package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/store"
)

// Time is a moment in milliseconds since 1970 UTC, written as RFC 3339 in UTC
// with three digits after the second. The zero Time is no time.
type Time int64

const timeLayout = "2006-01-02T15:04:05.000Z"

// Time gives t in UTC.
func (t Time) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

func (t Time) String() string { return t.Time().Format(timeLayout) }

// MarshalJSON writes t as text.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads any RFC 3339 time.
func (t *Time) UnmarshalJSON(b []byte) error {
	var v time.Time
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*t = Time(v.UnixMilli())
	return nil
}

// Schema describes t in the OpenAPI document.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "RFC 3339, UTC, milliseconds"}
}

// timeOf leaves out the times that stand for "none" and "never".
func timeOf(m store.Millis) Time {
	if m <= 0 || m >= store.Never {
		return 0
	}
	return Time(m)
}

// Secret is a text that is shown to its owner alone. No fmt verb and no logger
// prints it; JSON, which is how its owner gets it, does.
type Secret string

const hiddenSecret = "[secret]"

// Reveal gives the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string { return hiddenSecret }

// Format hides the text from every fmt verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenSecret)) }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }

// Duration is a span of time in Go's notation, such as "1h30m" or "500ms".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes d in Go's notation.
func (d Duration) MarshalJSON() ([]byte, error) { return []byte(`"` + d.String() + `"`), nil }

// UnmarshalJSON reads Go's notation.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// Schema describes d in the OpenAPI document. The format is checked by the
// strict reader.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: formatDuration, Description: "a Go duration, such as 1h30m or 5s", Examples: []any{"1h"}}
}

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
		return &huma.Schema{OneOf: []*huma.Schema{s, {Type: typeNull}}}
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
