package gateway

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
)

// describe writes the OpenAPI document from the table of routes and the types
// in it.
func describe(routes []route, c Config) ([]byte, error) {
	reg := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	reg.RegisterTypeAlias(reflect.TypeFor[countersign.Amount](), reflect.TypeFor[amountSchema]())
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:   "countersign gateway API",
			Version: c.Version,
			Description: "The merchant's end: orders to be countersigned, deposits that were taken, and what happened to both. " +
				"Errors are problem details (RFC 9457) that name the member at fault.",
		},
		Components: &huma.Components{Schemas: reg, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token": {Type: "http", Scheme: "bearer", Description: "a token of this gateway; its role must be the route's x-role or above"},
		}},
	}
	for _, r := range routes {
		doc.AddOperation(r.operation(reg))
	}
	if c.Metrics != nil {
		doc.AddOperation(&huma.Operation{
			Method: get, Path: "/metrics", OperationID: "metrics", Summary: "Give the metrics in the Prometheus text format",
			Responses:  map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {}}}},
			Extensions: map[string]any{"x-role": open.String()},
		})
	}
	return json.Marshal(doc)
}

var pathMember = regexp.MustCompile(`\{(\w+)\}`)

func (r route) operation(reg huma.Registry) *huma.Operation {
	op := &huma.Operation{
		Method: r.method, Path: r.path, OperationID: r.id, Summary: r.summary, Responses: map[string]*huma.Response{},
		Extensions: map[string]any{"x-role": r.need.String()},
	}
	if r.need != open {
		op.Security = []map[string][]string{{"token": {}}}
	}
	for _, m := range pathMember.FindAllStringSubmatch(r.path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range r.params {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: p.schema()})
	}
	if r.in != nil {
		op.RequestBody = &huma.RequestBody{Required: !r.bodyOptional, Content: map[string]*huma.MediaType{
			"application/json": {Schema: reg.Schema(r.in, true, "")}}}
	}
	success := &huma.Response{Description: http.StatusText(r.status)}
	if r.out != nil {
		success.Content = map[string]*huma.MediaType{"application/json": {Schema: reg.Schema(reflect.TypeOf(r.out), true, "")}}
	}
	op.Responses[strconv.Itoa(r.status)] = success
	if r.id == "addOrder" {
		op.Responses["200"] = success
	}
	for _, status := range r.statuses() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{
			"application/problem+json": {Schema: reg.Schema(reflect.TypeFor[Problem](), true, "")}}}
	}
	return op
}

// statuses lists what the route can answer beside success.
func (r route) statuses() []int {
	list := slices.Clone(r.errors)
	if r.need != open {
		list = append(list, 401, 403, 422, 500, 503)
	}
	if r.in != nil {
		list = append(list, 400, 413, 415)
	}
	if pathMember.MatchString(r.path) {
		list = append(list, 404)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (p param) schema() *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: p.doc}
	least, most := 0.0, 1000.0
	switch p.kind {
	case numberParam:
		s.Type, s.Minimum = huma.TypeInteger, &least
	case limitParam:
		least = 1
		s.Type, s.Minimum, s.Maximum = huma.TypeInteger, &least, &most
	case waitParam:
		s.Examples = []any{"30s"}
	}
	for _, v := range p.enum {
		s.Enum = append(s.Enum, v)
	}
	if s.Type == huma.TypeInteger && p.fallback != "" {
		s.Default, _ = strconv.Atoi(p.fallback)
	}
	return s
}
