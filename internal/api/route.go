package api

import (
	"context"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"countersign/client"
)

// Media types of requests and answers.
const (
	TypeJSON  = "application/json"
	TypeMerge = "application/merge-patch+json"
)

// Route is one row of a table of routes.
type Route struct {
	Method, Path string
	ID           string // operationId; the client's method has the same name
	Roles        Roles  // who may call it
	Scope        Scope
	Status       int // of success
	Handler
	Summary string
	Errors  []int // error statuses, in addition to those that method statuses adds
}

// Handler is a function with the types of its query, body and answer.
type Handler struct {
	query, in, out reflect.Type
	run            func(c *Call) (any, error)

	// urgent reserves room for the body even if other calls use up the budget; see Urgent.
	urgent bool
	// fresh requires a recent sign-in of a person; see Fresh.
	fresh bool
	// AlsoStatus is another status of success. 0: there is none.
	AlsoStatus int
}

// Proposes marks an act that may wait for an approver. Its answer has the member task then; see Call.TaskOf.
func Proposes(h Handler) Handler {
	h.AlsoStatus = http.StatusAccepted
	return h
}

// Urgent marks a call that must succeed whatever else is being sent, such as one that stops money.
func Urgent(h Handler) Handler {
	h.urgent = true
	return h
}

// None stands for no query, no body or no answer. A body that is sent anyway must be the empty object.
type None struct{}

func isNone(t reflect.Type) bool { return t == reflect.TypeFor[None]() }

// Handle returns a handler that calls f. The query and the body are checked against their schemas before f runs.
func Handle[Q, In, Out any](f func(*Call, Q, In) (Out, error)) Handler {
	return Handler{
		query: reflect.TypeFor[Q](), in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		run: func(c *Call) (any, error) {
			var q Q
			var in In
			query, err := queryOf(c.R.URL.RawQuery)
			if err != nil {
				return nil, err
			}
			if faults := c.a.readQuery(c.rt.params, query, reflect.ValueOf(&q).Elem()); len(faults) > 0 {
				return nil, Invalid(faults...)
			}
			if err := c.readBody(&in); err != nil {
				return nil, err
			}
			return f(c, q, in)
		},
	}
}

// One is Handle for a thing that the path names: by {id} if K is a string, by {seq} if K is a number. It returns
// db.ErrNotFound if the text cannot be an id or a number.
func One[K string | int64, In, Out any](f func(c *Call, key K, in In) (Out, error)) Handler {
	return Handle(func(c *Call, _ None, in In) (out Out, err error) {
		var key K
		switch to := any(&key).(type) {
		case *string:
			*to, err = c.PathID()
		case *int64:
			*to, err = c.PathSeq()
		}
		if err != nil {
			return out, err
		}
		return f(c, key, in)
	})
}

// Find is One for a read whose answer is the row.
func Find[K string | int64, Row any](read func(ctx context.Context, key K) (Row, error)) Handler {
	return One(func(c *Call, key K, _ None) (Row, error) { return read(c.R.Context(), key) })
}

// Endpoint is a route that is ready to be served, with its parameters and the schema of its body.
type Endpoint struct {
	Route
	a          *API
	params     []param
	schema     *huma.Schema // of the body
	accepts    []string     // media types of the body
	mayBeEmpty bool         // an absent body counts as the empty object
}

// Pattern returns the route as the mux and the log write it.
func (rt *Endpoint) Pattern() string { return rt.Method + " " + rt.Path }

// Body returns the schema of the body.
func (rt *Endpoint) Body() *huma.Schema { return rt.schema }

// Endpoint prepares r to be served by a.
func (a *API) Endpoint(r Route) *Endpoint {
	rt := &Endpoint{Route: r, a: a, params: paramsOf(a.registry, r.query), accepts: []string{TypeJSON}}
	if isNone(r.in) {
		rt.mayBeEmpty = true
		rt.schema = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false}
		return rt
	}
	rt.schema = a.registry.Schema(r.in, true, "")
	full := rt.schema
	if full.Ref != "" {
		full = a.registry.SchemaFromRef(full.Ref)
	}
	BoundDurations(a.registry, full, r.in)
	rt.mayBeEmpty = r.Method != http.MethodPatch && full.Type == huma.TypeObject && len(full.Required) == 0
	if r.Method == http.MethodPatch {
		rt.accepts = append(rt.accepts, TypeMerge)
	}
	return rt
}

// statuses lists the error statuses of the route.
func (rt *Endpoint) statuses() []int {
	list := append(slices.Clone(rt.Errors), 400, 422) // for a parameter that is malformed or not known
	if !rt.open() {
		list = append(list, 401, 403, 429, 500, 503)
	}
	if rt.Method != http.MethodGet {
		list = append(list, 413, 415, 429, 503)
		if !rt.open() {
			list = append(list, 507)
		}
	}
	if pathMember.MatchString(rt.Path) {
		list = append(list, 404)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Operation is a route as callers see it. The commands are made from operations.
type Operation struct {
	ID, Method, Path, Summary string
	Roles                     []client.Role // who may call it; none: everybody, without a token
	Query, In, Out            reflect.Type  // nil: there is none
	Waits                     bool          // it may wait for an approver
}

// Operations returns the operations of a table of routes. It calls no handler.
func Operations(routes []Route) []Operation {
	var all []Operation
	for _, r := range routes {
		all = append(all, Operation{ID: r.ID, Method: r.Method, Path: r.Path, Summary: r.Summary, Roles: r.Roles.shown(),
			Query: some(r.query), In: some(r.in), Out: some(r.out), Waits: r.AlsoStatus == http.StatusAccepted})
	}
	return all
}

// some returns nil for None.
func some(t reflect.Type) reflect.Type {
	if isNone(t) {
		return nil
	}
	return t
}

func (rt *Endpoint) open() bool { return slices.Contains(rt.Roles, anyone) }

// Scope says how a route limits a token that is bound to merchants.
type Scope int

const (
	// Whole: the route concerns all merchants. A bound token may not call it.
	Whole Scope = iota
	// ByPath: the path names the merchant, see Config.Concerns. For a bound token, other merchants do not exist.
	ByPath
	// ByHandler: the handler calls Call.Sees.
	ByHandler
)

// tagOf returns the tag of a path: its collection, or "operation" outside /v1.
func tagOf(path string) string {
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		collection, _, _ := strings.Cut(rest, "/")
		return collection
	}
	return "operation"
}

// oneOf returns the name of one thing of a collection.
func oneOf(collection string) string {
	switch collection {
	case "addresses":
		return "address"
	case "refused":
		return "refused callback"
	}
	return strings.TrimSuffix(collection, "s")
}

var pathMember = regexp.MustCompile(`\{(\w+)\}`)

// Fresh marks an act that moves money or decides on it. A person must have signed in within the last five minutes, so
// a browser that was left open or a stolen session is not enough. A token has no sign-in and passes. Every such act
// has Fresh in the tables of routes.
func Fresh(h Handler) Handler {
	h.fresh = true
	return h
}
