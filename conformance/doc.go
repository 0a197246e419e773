// Package conformance holds the numbered cases that a merchant endpoint must
// pass and runs them against any URL.
//
// A Checker plays the service. For every case it makes new deposits, notices or
// withdrawal requests, seals them with the service's part of the key, posts
// them, right or wrong in one respect, and holds what comes back to one rule of
// PROTOCOL.md. Nothing but HTTP reaches the endpoint, so it may be written in
// any language.
//
// # What is a must for whom
//
// Every case is a must for every merchant, except for what depends on the
// service (PROTOCOL.md, Binding). With Config.Unbound false the service
// binds, requests carry a bound requestUUID, and the cases that need Bound ask
// the merchant to refuse whatever is not bound or was spliced. With
// Config.Unbound true requests carry random identifiers, and the cases that
// need Unbound ask for the rule of first blocks instead.
//
// The codes 1001 to 1004 are of the protocol and are held to. The codes 2000
// and up are a merchant's own business as long as they are not 0: an unusual one
// passes with a note.
//
// # What is left behind
//
// A run leaves real traces at the endpoint: deposits that it took, whose
// trackingId begins with a prefix that is new for every run, and one withdrawal
// confirmed, if an order was given. Run it against a test system.
package conformance
