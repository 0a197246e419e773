// Package admin is the JSON API of the service: its routes and their handlers. Package client has the types of requests
// and answers.
//
// One table (routes.go) names every route and the role that it needs; package api serves and describes these routes.
package admin
