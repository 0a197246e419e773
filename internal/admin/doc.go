// Package admin is the JSON API of the service: its routes, tokens and roles,
// its OpenAPI document and its Go client.
//
// One table (routes.go) names every route, the role it needs and the Go types
// that go in and come out. From those types come the schemas of the OpenAPI
// document, and the schemas are what a request is checked against, so the
// document cannot promise what the handlers do not do. A request goes through
// one path: token, role, rate, size, strict JSON, schema, handler, audit.
// One table (problem.go) turns errors into statuses.
package admin
