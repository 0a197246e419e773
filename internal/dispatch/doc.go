// Package dispatch is the service's sender: it claims due callbacks, seals
// them, posts them, judges the responses and settles.
//
// # The path of one attempt
//
//	claim → bind and seal → post, read → judge → settle
//
// Two lanes, withdrawal questions and everything else, each claim for
// themselves, so that a backlog of deposits never delays a question. RSA work of
// both is bounded by the cores, waiting for merchants is not. What is claimed is
// leased: the whole exchange, the last byte of the response included, has one
// deadline that is shorter than the lease, so no callback is ever in two
// attempts at once.
//
// # What decides
//
// Judge and Schedule are pure. They take a response and the time at which it was
// complete, and give an outcome, a reason from a fixed list and, for
// a withdrawal, a decision. Whatever is not a complete, timely and exact
// confirmation never confirms (PROTOCOL.md, Decision).
package dispatch
