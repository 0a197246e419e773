// Package api is what the JSON APIs of both ends share: strict requests, problems, tokens and roles, the one list of what
// waits for persons with changes by two persons in it, the audit log, long polls and the OpenAPI document.
//
// The routes of both ends are in common.go. Each end adds its own routes. A route states the access it needs and the
// Go types of package client that it takes and returns. The schemas of the OpenAPI document are made from these
// types. Every request is checked against the schemas, so the document and the handlers agree. Every request passes
// the same steps: token, role, rate, size, strict JSON, schema, handler, audit. One table (problem.go) maps errors to
// statuses.
package api
