package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
)

// endpoint is a route made ready: its parameters and the schema of its body.
type endpoint struct {
	route
	s          *Server
	params     []param
	schema     *huma.Schema // of the body; nil where there is none
	accepts    []string     // media types of the body
	mayBeEmpty bool         // no body is the empty object
}

func (rt *endpoint) pattern() string { return rt.method + " " + rt.path }

// build makes the mux and the document from the one table of routes.
func (s *Server) build() error {
	s.registry = huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	s.registry.RegisterTypeAlias(reflect.TypeFor[countersign.Amount](), reflect.TypeFor[amountSchema]())
	s.lineSchema = s.registry.Schema(reflect.TypeFor[NewDeposit](), true, "")
	s.mux = http.NewServeMux()
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:       "countersign service API",
			Version:     s.Version,
			Description: "Tells merchants of deposits, asks them to countersign withdrawals, and gives at most one permit to execute each. Errors are problem details (RFC 9457) that name the member at fault.",
		},
		Components: &huma.Components{
			Schemas: s.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "a token of this service; its role must be the route's x-role or above"},
			},
		},
	}
	for _, r := range s.routes() {
		rt := s.endpoint(r)
		s.endpoints = append(s.endpoints, rt)
		s.mux.Handle(rt.pattern(), rt)
		doc.AddOperation(rt.operation())
	}
	if s.Metrics != nil {
		s.mux.Handle("GET /metrics", s.Metrics)
		doc.AddOperation(&huma.Operation{
			Method: get, Path: "/metrics", OperationID: "metrics", Summary: "Give the metrics in the Prometheus text format",
			Responses:  map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {}}}},
			Extensions: map[string]any{"x-role": open.String()},
		})
	}
	s.mux.HandleFunc("/", s.noRoute)
	var err error
	if s.document, err = json.Marshal(doc); err != nil {
		return fmt.Errorf("admin: writing the OpenAPI document: %w", err)
	}
	return nil
}

// noRoute answers what no route takes: 405 where another method would do.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{remove, get, patch, post} {
		other := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(other); pattern != "" && pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		writeProblem(w, problem(http.StatusNotFound, "there is no such path"))
		return
	}
	allow := strings.Join(allowed, ", ")
	w.Header().Set("Allow", allow)
	writeProblem(w, problem(http.StatusMethodNotAllowed, "this path takes "+allow))
}

func (s *Server) endpoint(r route) *endpoint {
	rt := &endpoint{route: r, s: s, params: paramsOf(s.registry, r.query)}
	if r.in == reflect.TypeFor[none]() {
		rt.mayBeEmpty = true
		rt.schema = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false}
		rt.accepts = []string{typeJSON}
		return rt
	}
	rt.schema = s.registry.Schema(r.in, true, "")
	rt.accepts = []string{typeJSON}
	full := rt.schema
	if full.Ref != "" {
		full = s.registry.SchemaFromRef(full.Ref)
	}
	rt.mayBeEmpty = r.method == post && full.Type == huma.TypeObject && len(full.Required) == 0
	if r.method == patch {
		rt.accepts = append(rt.accepts, typeMerge)
	}
	if r.lines != nil {
		rt.accepts = append(rt.accepts, typeNDJSON)
	}
	return rt
}

// statuses lists what the route can answer beside success.
func (rt *endpoint) statuses() []int {
	list := slices.Clone(rt.errors)
	if rt.need != open {
		list = append(list, 401, 403, 422, 429, 500, 503)
	}
	if rt.method != get {
		list = append(list, 400, 413, 415)
	}
	if strings.Contains(rt.path, "{id}") {
		list = append(list, 404)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// operation describes the route in the document.
func (rt *endpoint) operation() *huma.Operation {
	reg := rt.s.registry
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.id, Summary: rt.summary,
		Responses:  map[string]*huma.Response{},
		Extensions: map[string]any{"x-role": rt.need.String()},
	}
	if rt.need != open {
		op.Security = []map[string][]string{{"token": {}}}
	}
	if strings.Contains(rt.path, "{id}") {
		op.Parameters = append(op.Parameters, &huma.Param{Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: "query", Required: p.required, Description: p.schema.Description, Schema: p.schema})
	}
	if rt.in != reflect.TypeFor[none]() {
		op.RequestBody = &huma.RequestBody{Required: !rt.mayBeEmpty, Content: map[string]*huma.MediaType{}}
		for _, t := range rt.accepts {
			op.RequestBody.Content[t] = &huma.MediaType{Schema: rt.schema}
		}
	}
	success := &huma.Response{Description: http.StatusText(rt.status)}
	if rt.out != reflect.TypeFor[none]() {
		success.Content = map[string]*huma.MediaType{typeJSON: {Schema: reg.Schema(rt.out, true, "")}}
	}
	if rt.lines != nil {
		op.RequestBody.Content[typeNDJSON] = &huma.MediaType{Schema: rt.s.lineSchema}
		op.RequestBody.Description = "In " + typeNDJSON + " the schema is that of one line."
		success.Content[typeNDJSON] = &huma.MediaType{Schema: reg.Schema(reflect.TypeFor[AcceptedLine](), true, "")}
		success.Description += ". In " + typeNDJSON + " the schema is that of one line."
	}
	op.Responses[strconv.Itoa(rt.status)] = success
	for _, status := range rt.statuses() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: reg.Schema(reflect.TypeFor[Problem](), true, "")}},
		}
	}
	return op
}

func (s *Server) openapi(*call, none, none) (json.RawMessage, error) { return s.document, nil }
