package client

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Time is a moment in milliseconds since 1970 UTC. Its JSON is RFC 3339 in UTC
// with three digits after the second. The zero Time is no time.
type Time int64

const timeLayout = "2006-01-02T15:04:05.000Z"

// TimeOf returns t as a Time. Fractions of a millisecond are cut off.
func TimeOf(t time.Time) Time { return Time(t.UnixMilli()) }

// Span reads a length of time as people type it: a duration such as 12h30m, or whole days
// such as 7d, up to 36500d. ok is false for anything else, and for one that is not above 0.
func Span(text string) (span time.Duration, ok bool) {
	span, err := time.ParseDuration(text)
	if days, found := strings.CutSuffix(text, "d"); found {
		var n int
		if n, err = strconv.Atoi(days); n > 36500 {
			return 0, false
		}
		span = time.Duration(n) * 24 * time.Hour
	}
	return span, err == nil && span > 0
}

// Time returns t in UTC.
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

// Duration is a span of time. Its JSON is text in Go's notation, such as
// "1h30m" or "500ms".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes d in Go's notation.
func (d Duration) MarshalJSON() ([]byte, error) { return []byte(`"` + d.String() + `"`), nil }

// UnmarshalJSON reads Go's notation. null changes nothing.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// Secret is a text for its owner alone. No fmt verb and no logger prints it. Its
// JSON holds it, because that is how the API sends it to its owner.
type Secret string

const hiddenSecret = "[secret]"

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string { return hiddenSecret }

// Format hides the text from every fmt verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hiddenSecret)) }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }
