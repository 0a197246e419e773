// Package console is the web console of both daemons: pages that show and do what the signed-in token may, through the daemon's own API.
//
// A page calls the API's handler in process (transport.go) with the token of its session
// (session.go). So it shows nothing that the token may not read, and whatever it does
// is checked and recorded as a call of that token. It has no access to the database.
//
// service.go and gateway.go hold the tables of pages; a page is one file here and one or
// more in templates/. Pages are made by the server and work without JavaScript;
// static/app.js adds live updates and local times.
package console
