package api

import (
	"reflect"

	"countersign/client"
)

// Operation is a route as callers see it. The commands are made from operations.
type Operation struct {
	ID, Method, Path, Summary string
	Roles                     []client.Role // who may call it; none: everybody, without a token
	Query, In, Out            reflect.Type  // nil: there is none
	Waits                     bool          // the answer may be a client.Proposed
}

// Operations returns the operations of a table of routes. It calls no handler.
func Operations(routes []Route) []Operation {
	var all []Operation
	for _, r := range routes {
		all = append(all, Operation{ID: r.ID, Method: r.Method, Path: r.Path, Summary: r.Summary, Roles: r.Roles.shown(),
			Query: some(r.query), In: some(r.in), Out: some(r.out), Waits: r.alsoOut == reflect.TypeFor[client.Proposed]()})
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
