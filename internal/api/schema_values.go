package api

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/internal/web"
)

// patterns caches compiled patterns. There are few, because they come from our own schemas.
var patterns sync.Map

func matches(pattern, text string) bool {
	re, ok := patterns.Load(pattern)
	if !ok {
		re, _ = patterns.LoadOrStore(pattern, regexp.MustCompile(pattern))
	}
	return re.(*regexp.Regexp).MatchString(text)
}

// checkText returns what is wrong with text by schema s. It returns "" if text fits.
func checkText(s *huma.Schema, text string) string {
	if s.MinLength != nil && len(text) < *s.MinLength && utf8.RuneCountInString(text) < *s.MinLength {
		if text == "" {
			return "is empty"
		}
		return fmt.Sprintf("is shorter than %d characters", *s.MinLength)
	}
	if s.MaxLength != nil && len(text) > *s.MaxLength && utf8.RuneCountInString(text) > *s.MaxLength {
		return fmt.Sprintf("is longer than %d characters", *s.MaxLength)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return "holds U+0000"
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(v any) bool { return v == text }) {
		return "is not one of " + listed(s.Enum)
	}
	switch s.Format {
	case formatDecimal:
		if _, err := countersign.ParseAmount(text); err != nil {
			return strings.TrimPrefix(err.Error(), "amount ")
		}
		return ""
	case formatTime:
		if t, err := time.Parse(time.RFC3339, text); err != nil || t.Year() < 1971 || t.Year() > 9999 {
			return "is not a time such as 2030-01-31T12:00:00Z"
		}
		return ""
	case FormatDuration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return "is not a duration such as 30s, 10m or 1h30m"
		}
		if b, ok := s.Extensions[leastDuration].(string); ok {
			least, _ := time.ParseDuration(b)
			if most, _ := time.ParseDuration(s.Extensions[mostDuration].(string)); d < least || d > most {
				return fmt.Sprintf("is not between %s and %s", b, s.Extensions[mostDuration])
			}
		}
		return ""
	}
	if s.Pattern != "" && !matches(s.Pattern, text) {
		if s.PatternDescription != "" {
			return "is not " + s.PatternDescription
		}
		return "does not match " + s.Pattern
	}
	return ""
}

// The members of a schema that limit a duration.
const (
	leastDuration = "x-minimum"
	mostDuration  = "x-maximum"
)

// BoundDurations copies the tag within of the fields of t, such as "10s to 168h", into the schema of t, which may be an array.
func BoundDurations(r huma.Registry, s *huma.Schema, t reflect.Type) {
	if t.Kind() == reflect.Slice {
		s, t = s.Items, t.Elem()
	}
	if s.Ref != "" {
		s = r.SchemaFromRef(s.Ref)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if least, most, ok := strings.Cut(f.Tag.Get("within"), " to "); ok {
			s.Properties[name].Extensions = map[string]any{leastDuration: least, mostDuration: most}
		}
	}
}

// checkNumber returns what is wrong with a number by schema s. raw is the number as written. It returns "" if the
// number fits.
func checkNumber(s *huma.Schema, raw string) string {
	v, err := strconv.ParseFloat(raw, 64)
	if s.Type == huma.TypeInteger {
		if _, whole := web.JSONInt(raw); !whole {
			return "is not a whole number"
		}
	} else if err != nil || math.IsInf(v, 0) {
		return "is out of range"
	}
	if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
		switch {
		case s.Maximum == nil:
			return "is below " + number(*s.Minimum)
		case s.Minimum == nil:
			return "is above " + number(*s.Maximum)
		}
		return "is not between " + number(*s.Minimum) + " and " + number(*s.Maximum)
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return e == v }) {
		return "is not one of " + listed(s.Enum)
	}
	return ""
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func listed(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ")
}

// The formats that checkText and checkNumber know.
const (
	formatTime     = "date-time"   // checked by time.Parse; years 1971 to 9999
	formatDecimal  = "decimal"     // checked by countersign.ParseAmount
	FormatDuration = "go-duration" // checked by time.ParseDuration
)
