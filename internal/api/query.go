package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
	"countersign/internal/web"
)

// param is one query parameter of a route, made from a field of its query type.
type param struct {
	name     string
	index    []int
	schema   *huma.Schema
	required bool
	fallback string
}

// paramsOf returns the fields with a query tag, including those of structs in it. Their other tags are those of the
// schemas.
func paramsOf(reg huma.Registry, t reflect.Type) []param {
	var list []param
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("query")
		switch {
		case name == "" && f.Type.Kind() == reflect.Struct && !f.Anonymous:
			for _, p := range paramsOf(reg, f.Type) {
				p.index = append(slices.Clone(f.Index), p.index...)
				list = append(list, p)
			}
			continue
		case name == "":
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
				At("query."+web.Printable(name), "is malformed: % is written as %25, and ; as %3B"))
		}
	}
	return url.ParseQuery(raw)
}

// readQuery sets the struct that v points to. It returns a fault for a parameter that is unknown, repeated or does
// not fit its schema.
func (a *API) readQuery(params []param, query url.Values, v reflect.Value) []client.Fault {
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.ContainsFunc(params, func(p param) bool { return p.name == name }) && len(faults) < MaxFaults {
			faults.Add("query."+web.Printable(name), "is not known here")
		}
	}
	for _, p := range params {
		values, text, problem := query[p.name], p.fallback, ""
		switch {
		case len(values) > 1:
			problem = "occurs twice"
		case len(values) == 1 && !utf8.ValidString(values[0]):
			problem = "is not valid UTF-8"
		case len(values) == 1 && p.schema.MaxLength == nil && len(values[0]) > maxText:
			problem = fmt.Sprintf("is longer than %d bytes", maxText)
		case len(values) == 1:
			text = values[0]
		case p.required:
			problem = "is missing"
		}
		if problem == "" && (text != "" || len(values) == 1) {
			problem = a.readParam(p.schema, text, v.FieldByIndex(p.index).Addr().Interface())
		}
		if problem != "" {
			faults.Add("query."+p.name, problem)
		}
	}
	return faults
}

// maxText is the longest text, in bytes, if the schema has no maxLength. It is the length of the longest identifier
// that the databases store.
const maxText = 1024

// readParam reads a parameter into the value that to points to, as the value of a member of a body is read. It
// returns what is wrong with it, or "".
func (a *API) readParam(s *huma.Schema, text string, to any) string {
	raw := []byte(text)
	if s.Type != huma.TypeInteger {
		raw, _ = json.Marshal(text) // a text
	}
	faults, err := checkJSON(a.registry, s, raw, a.c.MaxBody)
	switch {
	case err == nil && len(faults) > 0:
		return faults[0].Message
	case err != nil || json.Unmarshal(raw, to) != nil:
		return "is not a whole number"
	}
	return ""
}
