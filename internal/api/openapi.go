package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
)

// notation describes how both APIs write errors, times, durations and lengths.
const notation = "Errors are problem details (RFC 9457) that name the member at fault. " +
	"Times are RFC 3339 in UTC with milliseconds. Durations are texts of numbers with the units h, m, s and ms, " +
	"such as 1h30m or 500ms. Lengths of texts are in characters."

// describe returns the OpenAPI document of the routes and their types.
func (a *API) describe() *huma.OpenAPI {
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "countersign " + strings.TrimPrefix(a.c.Self, "the ") + " API", Version: a.c.Version,
			Description: a.c.Description + notation},
		Servers: []*huma.Server{{URL: "/", Description: "the listener that gives this document"}},
		Components: &huma.Components{
			Schemas: a.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "a token of " + a.c.Self + "; its role must be one of the operation's x-roles"},
			},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(a.c.Tags)) {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: name, Description: a.c.Tags[name]})
	}
	for _, rt := range a.endpoints {
		doc.AddOperation(rt.Operation())
	}
	return doc
}

// published returns the document as callers read it. It removes patternDescription, which only our checks use and
// which JSON Schema does not define.
func published(doc *huma.OpenAPI) (json.RawMessage, error) {
	b, err := json.Marshal(doc)
	return ownMember.ReplaceAll(b, nil), err
}

// ownMember matches patternDescription. The comma is always there, because the member pattern comes before it.
var ownMember = regexp.MustCompile(`,"patternDescription":"([^"\\]|\\.)*"`)

// anybody is the security of an operation without a token. Without this empty list, the operation would inherit the
// document's security.
var anybody = []map[string][]string{}

// meanings describes the error statuses in the document.
var meanings = map[int]string{
	http.StatusBadRequest:            "the body is not JSON, or could not be read",
	http.StatusUnauthorized:          "the token is missing or not valid",
	http.StatusForbidden:             "the token may not do this; detail says why",
	http.StatusNotFound:              "there is no such thing",
	http.StatusConflict:              "the request conflicts with the present state; detail says why",
	http.StatusGone:                  "it was purged, because it is older than what is kept; detail says what is known of it",
	http.StatusRequestEntityTooLarge: "the body is too long",
	http.StatusUnsupportedMediaType:  "the operation does not take the body's media type",
	http.StatusUnprocessableEntity:   "members of the request are wrong; errors names them",
	http.StatusTooManyRequests:       "the token made too many requests; the header Retry-After says in how many seconds to repeat it",
	http.StatusInternalServerError:   "an error inside this end; its log has the cause",
	http.StatusServiceUnavailable:    "this end cannot work at the moment; repeat the request later",
	http.StatusInsufficientStorage:   "the disk of this end's database is full; nothing was changed; repeat the request when it has room",
}

// Operation describes the route in the document.
func (rt *Endpoint) Operation() *huma.Operation {
	reg := rt.a.registry
	op := &huma.Operation{
		Method: rt.Method, Path: rt.Path, OperationID: rt.ID, Summary: rt.Summary, Tags: []string{tagOf(rt.Path)},
		Security:   anybody,
		Responses:  map[string]*huma.Response{},
		Extensions: map[string]any{"x-roles": rt.Roles.shown()},
	}
	if !rt.open() {
		op.Security = []map[string][]string{{"token": {}}}
	}
	for _, m := range pathMember.FindAllStringSubmatch(rt.Path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
			Description: m[1] + " of the " + strings.TrimSuffix(tagOf(rt.Path), "s"),
		})
	}
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.name, In: "query", Required: p.required,
			Description: p.schema.Description, Schema: p.schema})
	}
	if !isNone(rt.in) {
		op.RequestBody = &huma.RequestBody{Required: !rt.mayBeEmpty, Content: map[string]*huma.MediaType{}}
		for _, t := range rt.accepts {
			op.RequestBody.Content[t] = &huma.MediaType{Schema: rt.schema}
		}
	}
	success := &huma.Response{Description: http.StatusText(rt.Status)}
	if !isNone(rt.out) {
		success.Content = map[string]*huma.MediaType{TypeJSON: {Schema: reg.Schema(rt.out, true, "")}}
	}
	op.Responses[strconv.Itoa(rt.Status)] = success
	if rt.AlsoStatus != 0 {
		op.Responses[strconv.Itoa(rt.AlsoStatus)] = &huma.Response{Description: http.StatusText(rt.AlsoStatus),
			Content: success.Content}
	}
	for _, status := range rt.statuses() {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: meanings[status],
			Content: map[string]*huma.MediaType{typeProblem: {Schema: reg.Schema(reflect.TypeFor[client.Problem](),
				true, "")}},
		}
	}
	return op
}

// commonTags returns the texts of the collections that both ends have. An end's own text takes precedence.
func commonTags(end string) map[string]string {
	return map[string]string{
		"alarms":    "Alarms, for a person to look at",
		"audit":     "The audit log: what happened, who did it, and proofs that nothing of it was changed",
		"stats":     "Numbers",
		"search":    "One search over everything",
		"nodes":     "The processes of " + end,
		"epoch":     "Since which restore from a backup the database is what it is",
		"signin":    "Signing in with the company's identity provider",
		"tokens":    "The tokens of this API",
		"tasks":     "What waits for persons, and their answers",
		"operation": "Probes and this document",
	}
}
