package jsonapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
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
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	v, err := time.Parse(time.RFC3339, text)
	*t = Time(v.UnixMilli())
	return err
}

// Schema describes t in the OpenAPI document.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Description: "RFC 3339, UTC, milliseconds"}
}

// TimeOf gives m as a Time. It leaves out the times that stand for "none" and "never".
func TimeOf(m store.Millis) Time {
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
	return &huma.Schema{Type: huma.TypeString, Format: FormatDuration, Description: "a Go duration, such as 1h30m or 5s", Examples: []any{"1h"}}
}
