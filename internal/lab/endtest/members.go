package endtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/api"
	"countersign/internal/lab/dbtest"
)

// common are good bodies of operations that both ends have.
var common = map[string]any{
	"approveTask": map[string]any{"reason": "seen"}, "declineTask": map[string]any{"reason": "seen"}, "noteTask": map[string]any{"text": "seen"},
	"approveTasks":   map[string]any{"ids": []any{"change.chg_1"}, "reason": "seen", "dryRun": true},
	"declineTasks":   map[string]any{"ids": []any{"change.chg_1"}, "reason": "seen", "dryRun": true},
	"ackAlarm":       map[string]any{"note": "seen"},
	"beginProvider":  map[string]any{"origin": "https://console.example", "again": true},
	"finishProvider": map[string]any{"state": "s", "returnedState": "g", "code": "c", "issuer": "https://issuer.example"},
	"createToken":    map[string]any{"name": "n", "role": "viewer", "merchants": []any{"acme"}, "expires": "2031-01-01T00:00:00Z", "depositsPerHour": 100},
}

// WrongMembers sends every body with one wrong member that the schemas know of, to every endpoint
// that changes something. Each is refused with a 422 that names the member and does not repeat its
// value. good has a good body with all members for each operation that takes one and is not in common; many are those
// that take an array too.
func WrongMembers(t *testing.T, e End, secret string, good map[string]any) {
	total := 0
	for _, rt := range e.API.Endpoints() {
		if rt.Method == http.MethodGet {
			continue
		}
		cases := []spoiled{{"unknown", `{"zzz":1}`, "body.zzz"}} // what takes no body refuses a member
		body, ok := good[rt.ID]
		if !ok {
			body, ok = common[rt.ID]
		}
		if !ok && rt.Body() != nil && !isEmpty(resolved(e.API.Registry(), rt.Body())) {
			t.Errorf("no body is known for %s", rt.ID)
		}
		if ok {
			if cases = spoil(t, e.API.Registry(), rt.Body(), AsAny(t, body), "body"); len(cases) < 5 {
				t.Errorf("%s: only %d wrong bodies", rt.ID, len(cases))
			}
		}
		for _, c := range cases[:len(cases):len(cases)] { // of an array the second item too
			if rest, of := strings.CutPrefix(c.location, "body[0]."); of {
				first := strings.TrimSuffix(Encode(t, body), "]")
				cases = append(cases, spoiled{"the second: " + c.name, first + "," + strings.TrimPrefix(c.body, "["), "body[1]." + rest})
			}
		}
		for _, c := range cases {
			e.Pass()
			if a := e.ask(t, secret, rt.Method, e.Path(rt), api.TypeJSON, c.body); !a.names(422, c.location) || strings.Contains(a.Body, marker) {
				t.Errorf("%s, %s %s: not refused for it, or with its value: %d %s\n%.500s", rt.ID, c.location, c.name, a.Status, a.Body, c.body)
			}
		}
		total += len(cases)
	}
	t.Logf("%d wrong bodies refused", total)
}

// WrongQueries calls every endpoint that reads with each wrong parameter that the schemas know of, one at a time. Each is
// refused with a 422 that names the parameter and does not repeat its value.
func WrongQueries(t *testing.T, e End, secret string) {
	total := 0
	for _, rt := range e.API.Endpoints() {
		if rt.Method != http.MethodGet {
			continue
		}
		cases := [][2]string{{"zzz", "1"}}
		for _, p := range rt.Operation().Parameters {
			if p.In != "query" {
				continue
			}
			for _, v := range wrongTexts(resolved(e.API.Registry(), p.Schema)) {
				cases = append(cases, [2]string{p.Name, v})
			}
			cases = append(cases, [2]string{p.Name, "1&" + p.Name + "=1"})
		}
		for _, c := range cases {
			e.Pass()
			query := c[0] + "=" + strings.ReplaceAll(url.QueryEscape(c[1]), "%26"+c[0]+"%3D", "&"+c[0]+"=")
			if a := e.ask(t, secret, rt.Method, e.Path(rt)+"?"+query, "", ""); !a.names(422, "query."+c[0]) || strings.Contains(a.Body, marker) {
				t.Errorf("%s?%.100s: not refused for it, or with its value: %d %s", rt.ID, query, a.Status, a.Body)
			}
		}
		total += len(cases)
	}
	t.Logf("%d wrong queries refused", total)
}

// wrongTexts returns values of a parameter that its schema refuses.
func wrongTexts(s *huma.Schema) []string {
	if s.Type == huma.TypeInteger {
		list := []string{"", "x7", "1.5", "99999999999999999999"}
		if s.Minimum != nil {
			list = append(list, fmt.Sprint(int64(*s.Minimum)-1))
		}
		if s.Maximum != nil {
			list = append(list, fmt.Sprint(int64(*s.Maximum)+1))
		}
		if len(s.Enum) > 0 {
			list = append(list, "7000007")
		}
		return list
	}
	list := []string{"a\x00", "\xff"}
	if s.MinLength != nil {
		list = append(list, "")
	}
	if s.MaxLength != nil {
		list = append(list, strings.Repeat("a", *s.MaxLength+1))
	}
	if len(s.Enum) > 0 || s.Format != "" || s.Pattern != "" {
		list = append(list, marker)
	}
	return list
}

// marker is in each text that is not a valid value of its member.
const marker = "no such välue"

// AsAny returns v as JSON has it.
func AsAny(t testing.TB, v any) (out any) {
	t.Helper()
	dbtest.OK(t, json.Unmarshal([]byte(Encode(t, v)), &out))
	return out
}

// Encode returns v in JSON.
func Encode(t testing.TB, v any) string {
	t.Helper()
	return string(dbtest.Must(json.Marshal(v))(t))
}

// spoiled is one body that a schema refuses, and the member it is refused for.
type spoiled struct{ name, body, location string }

// spoil returns a good body with each wrong member that the schema knows of, one at a time: missing, null, of another
// kind, twice, in another case, too long, too short, out of range, not in the list. It spoils objects and arrays within
// too.
func spoil(t testing.TB, reg huma.Registry, s *huma.Schema, good any, location string) []spoiled {
	t.Helper()
	for s.Ref != "" {
		s = reg.SchemaFromRef(s.Ref)
	}
	if len(s.OneOf) > 0 {
		for _, alt := range s.OneOf {
			if kind := resolved(reg, alt).Type; kind == kindOf(good) {
				return spoil(t, reg, alt, good, location)
			}
		}
	}
	var out []spoiled
	as := func(name string, v any) { out = append(out, spoiled{name, Encode(t, v), location}) }
	switch s.Type {
	case huma.TypeObject:
		as("array", []any{})
		if _, isMap := s.AdditionalProperties.(*huma.Schema); isMap {
			return out
		}
		members, _ := good.(map[string]any)
		render := func(name, raw string) string {
			var parts []string
			for k, v := range members {
				if k != name {
					parts = append(parts, fmt.Sprintf("%q:%s", k, Encode(t, v)))
				}
			}
			if raw != "" {
				parts = append(parts, raw)
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		out = append(out, spoiled{"unknown", render("zzz", `"zzz":1`), location + ".zzz"})
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			prop := s.Properties[name]
			at := location + "." + name
			value, there := members[name]
			if slices.Contains(s.Required, name) {
				out = append(out, spoiled{"missing", render(name, ""), at})
			}
			if !there {
				t.Errorf("the good body lacks %s, so nothing tests it", at)
				continue
			}
			upper := strings.ToUpper(name)
			text := Encode(t, value)
			out = append(out, spoiled{"other case", render(name, fmt.Sprintf("%q:%s", upper, text)), location + "." + upper},
				spoiled{"twice", render(name, fmt.Sprintf("%q:%s,%q:%s", name, text, name, text)), at})
			if !nullable(reg, prop) {
				out = append(out, spoiled{"null", render(name, fmt.Sprintf("%q:null", name)), at})
			}
			for _, inner := range spoil(t, reg, prop, value, at) {
				out = append(out, spoiled{inner.name, render(name, fmt.Sprintf("%q:%s", name, inner.body)), inner.location})
			}
		}
	case huma.TypeArray:
		as("object", map[string]any{})
		list, _ := good.([]any)
		if s.MinItems != nil && *s.MinItems > 0 {
			as("empty", []any{})
		}
		if s.MaxItems != nil {
			as("too many", slices.Repeat(list[:1], *s.MaxItems+1))
		}
		for _, inner := range spoil(t, reg, s.Items, list[0], location+"[0]") {
			out = append(out, spoiled{inner.name, "[" + inner.body + "]", inner.location})
		}
	case huma.TypeString:
		as("number where text is wanted", []any{7})
		as("control", "a\x00b")
		out = append(out, spoiled{"half a character", `"\ud800"`, location})
		if s.MinLength != nil {
			as("empty", "")
		}
		if s.MaxLength != nil {
			as("too long", strings.Repeat("ü", *s.MaxLength+1))
		}
		if len(s.Enum) > 0 || s.Format == api.FormatDuration || s.Pattern != "" {
			as("no such value", marker)
		}
		if s.Format == api.FormatDuration && len(s.Extensions) > 0 {
			as("too short", "1ms")
			as("too long", "1000000h")
		}
	case huma.TypeInteger, huma.TypeNumber:
		as("text", "x7")
		if s.Type == huma.TypeInteger {
			as("fraction", 1.5)
		}
		if s.Minimum != nil {
			as("below", *s.Minimum-1)
		}
		if s.Maximum != nil {
			as("above", *s.Maximum*2+1)
		}
		if len(s.Enum) > 0 {
			as("no such value", 7_000_007)
		}
	case huma.TypeBoolean:
		as("text", "true")
		as("number", 1)
	}
	return out
}

// isEmpty reports whether s is of an object without members.
func isEmpty(s *huma.Schema) bool { return s.Type == huma.TypeObject && len(s.Properties) == 0 }

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return huma.TypeObject
	case []any:
		return huma.TypeArray
	case string:
		return huma.TypeString
	}
	return huma.TypeNumber
}

func resolved(reg huma.Registry, s *huma.Schema) *huma.Schema {
	for s.Ref != "" {
		s = reg.SchemaFromRef(s.Ref)
	}
	return s
}

func nullable(reg huma.Registry, s *huma.Schema) bool {
	s = resolved(reg, s)
	return s.Nullable || slices.ContainsFunc(s.OneOf, func(a *huma.Schema) bool { return a.Type == "null" })
}
