// Package jsonapi is what the JSON APIs of both ends share: strict requests,
// problems, tokens and roles, audit, long polls, the OpenAPI document.
//
// An end gives its table of routes: the access that each needs and the Go types
// of package client that go in and come out. From those types come the schemas
// of the OpenAPI document, and the schemas are what a request is checked against, so the
// document cannot promise what the handlers do not do. A request goes through
// one path: token, role, rate, size, strict JSON, schema, handler, audit.
// One table (problem.go) turns errors into statuses.
package jsonapi
