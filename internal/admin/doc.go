// Package admin is the JSON API of the service: its routes, the types that go
// in and come out of them, and its Go client.
//
// One table (routes.go) names every route and the role it needs; package
// jsonapi makes of it what serves and describes them.
package admin
