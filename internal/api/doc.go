// Package api is what the JSON APIs of both ends share: strict requests,
// problems, tokens and roles, changes by two persons, audit, long polls, the OpenAPI
// document.
//
// The routes that both ends have are in common.go. An end adds its own: the access that each needs and the Go types of
// package client that go in and come out. The schemas of the OpenAPI document are
// made from those types, and every request is checked against the schemas, so the
// document and the handlers agree. Every request passes the same steps: token,
// role, rate, size, strict JSON, schema, handler, audit. One table (problem.go)
// turns errors into statuses.
package api
