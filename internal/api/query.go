package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
	"countersign/internal/strictjson"
)

// param is one query parameter of a route, made from a field of its query type.
type param struct {
	name     string
	index    []int
	schema   *huma.Schema
	required bool
	fallback string
}

// paramsOf returns the fields with a query tag, including those of embedded structs. Their other tags are those of
// the schemas.
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

// queryOf parses a query. It refuses a malformed pair, because url.URL.Query would drop it and a list would then be
// answered without that filter.
func queryOf(raw string) (url.Values, error) {
	for pair := range strings.SplitSeq(raw, "&") {
		if _, err := url.ParseQuery(pair); err != nil {
			name, _, _ := strings.Cut(pair, "=")
			return nil, NewProblem(http.StatusBadRequest, "",
				At("query."+strictjson.Printable(name), "is malformed: % is written as %25, and ; as %3B"))
		}
	}
	return url.ParseQuery(raw)
}

// readQuery sets the struct that v points to. It returns a fault for a parameter that is unknown, repeated or does
// not fit its schema.
func readQuery(params []param, query url.Values, v reflect.Value) []client.Fault {
	var faults []client.Fault
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.ContainsFunc(params, func(p param) bool { return p.name == name }) && len(faults) < MaxFaults {
			faults = append(faults, At("query."+strictjson.Printable(name), "is not known here"))
		}
	}
	for _, p := range params {
		values := query[p.name]
		text := p.fallback
		field := v.FieldByIndex(p.index)
		switch {
		case len(values) > 1:
			faults = append(faults, At("query."+p.name, "occurs twice"))
			continue
		case len(values) == 1:
			text = values[0]
			if problem := checkParam(p.schema, field.Kind(), text); problem != "" {
				faults = append(faults, At("query."+p.name, problem))
				continue
			}
		case p.required:
			faults = append(faults, At("query."+p.name, "is missing"))
			continue
		}
		if text != "" {
			setField(field, p.schema, text)
		}
	}
	return faults
}

// maxText is the longest text, in bytes, if the schema has no maxLength. It is the length of the longest identifier
// that the databases store.
const maxText = 1024

func checkParam(s *huma.Schema, kind reflect.Kind, text string) string {
	switch {
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case s.Type == huma.TypeInteger:
		if !json.Valid([]byte(text)) {
			return "is not a whole number"
		}
		return checkNumber(s, text)
	case s.Format == formatTime:
		return checkText(s, text)
	case kind == reflect.Int64: // a duration, whatever the format in its schema
		if _, err := time.ParseDuration(text); err != nil {
			return "is not a duration such as 30s, 10m or 1h30m"
		}
		return ""
	case s.MaxLength == nil && len(text) > maxText:
		return fmt.Sprintf("is longer than %d bytes", maxText)
	}
	return checkText(s, text)
}

// setField sets a field to a text that was checked. It supports the kinds that query types use. An int64 whose schema
// is a string is a duration.
func setField(f reflect.Value, s *huma.Schema, text string) {
	switch kind := f.Kind(); {
	case kind == reflect.String:
		f.SetString(text)
	case s.Format == formatTime:
		t, _ := time.Parse(time.RFC3339, text)
		f.SetInt(t.UnixMilli())
	case kind == reflect.Int64 && s.Type == huma.TypeString:
		d, _ := time.ParseDuration(text)
		f.SetInt(int64(d))
	case kind == reflect.Int, kind == reflect.Int64:
		n, _ := strconv.ParseInt(text, 10, 64)
		f.SetInt(n)
	default:
		panic("query parameter of type " + f.Type().String())
	}
}
