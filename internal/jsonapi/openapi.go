package jsonapi

import (
	"net/http"
	"reflect"
	"regexp"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
)

// describe writes the OpenAPI document from the routes and the types in them.
func (a *API) describe() *huma.OpenAPI {
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: a.c.Title, Version: a.c.Version, Description: a.c.Description},
		Components: &huma.Components{
			Schemas: a.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: a.c.TokenDescription},
			},
		},
	}
	for _, rt := range a.endpoints {
		doc.AddOperation(rt.Operation())
	}
	if a.c.Metrics != nil {
		doc.AddOperation(&huma.Operation{
			Method: http.MethodGet, Path: "/metrics", OperationID: "metrics", Summary: "Give the metrics in the Prometheus text format",
			Responses:  map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {}}}},
			Extensions: map[string]any{"x-role": Open.String()},
		})
	}
	return doc
}

var pathMember = regexp.MustCompile(`\{(\w+)\}`)

// Operation describes the route in the document.
func (rt *Endpoint) Operation() *huma.Operation {
	reg := rt.a.registry
	op := &huma.Operation{
		Method: rt.Method, Path: rt.Path, OperationID: rt.ID, Summary: rt.Summary,
		Responses:  map[string]*huma.Response{},
		Extensions: map[string]any{"x-role": rt.Need.String()},
	}
	if rt.Need != Open {
		op.Security = []map[string][]string{{"token": {}}}
	}
	for _, m := range pathMember.FindAllStringSubmatch(rt.Path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: "query", Required: p.required, Description: p.schema.Description, Schema: p.schema})
	}
	if rt.takesBody() {
		op.RequestBody = &huma.RequestBody{Required: !rt.mayBeEmpty, Content: map[string]*huma.MediaType{}}
		for _, t := range rt.accepts {
			op.RequestBody.Content[t] = &huma.MediaType{Schema: rt.schema}
		}
	}
	success := &huma.Response{Description: http.StatusText(rt.Status)}
	if !isNone(rt.out) {
		success.Content = map[string]*huma.MediaType{TypeJSON: {Schema: reg.Schema(rt.out, true, "")}}
	}
	if rt.Lines != nil {
		op.RequestBody.Content[TypeNDJSON] = &huma.MediaType{Schema: rt.lineSchema}
		op.RequestBody.Description = "In " + TypeNDJSON + " the schema is that of one line."
		success.Content[TypeNDJSON] = &huma.MediaType{Schema: reg.Schema(rt.LineOut, true, "")}
		success.Description += ". In " + TypeNDJSON + " the schema is that of one line."
	}
	op.Responses[strconv.Itoa(rt.Status)] = success
	if rt.AlsoStatus != 0 {
		op.Responses[strconv.Itoa(rt.AlsoStatus)] = success
	}
	for _, status := range rt.statuses() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{typeProblem: {Schema: reg.Schema(reflect.TypeFor[client.Problem](), true, "")}},
		}
	}
	return op
}
