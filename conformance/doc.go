// Package conformance holds the numbered cases that a merchant endpoint must
// pass and runs them against any URL.
//
// A Checker plays the service. For every case it makes new deposits, notices or
// withdrawal requests, seals them with the service's part of the key, posts
// them, correct or with one fault, and checks the response against one rule of
// PROTOCOL.md. A Checker reaches the endpoint by HTTP only, so the endpoint may
// be written in any language.
//
// Every merchant must pass every case, except those that depend on the service (PROTOCOL.md, Binding), which have a
// Need. With Config.Unbound false the service binds, and the merchant must refuse requests that are not bound or were
// spliced. With Config.Other true the service is not of this project, and the merchant takes other forms of members.
//
// The codes 1001 to 1004 must be those of the protocol. A merchant may choose
// its own codes from 2000 up: an unusual one passes with a note.
//
// # What a run changes
//
// A run changes the endpoint's data: it adds deposits, whose trackingId begins
// with a prefix that is new for every run, and it has one withdrawal confirmed if
// an order was given. Run it against a test system.
package conformance
