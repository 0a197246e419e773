// Package console is the web console of both daemons: pages that show and do what the signed-in token may, through the
// daemon's own API.
//
// A page calls the API's handler in process (transport.go) with the token of its session (session.go). So it shows
// nothing that the token may not read, and all that it does is checked and recorded as a call of that token. It has no
// access to the database.
//
// service.go and gateway.go list the sections, which hold the tables of pages. A page has one file here and one or more
// in templates/. The server renders the pages, and they work without JavaScript; static/app.js adds live updates and
// local times.
package console
