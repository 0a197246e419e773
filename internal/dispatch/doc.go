// Package dispatch is the service's sender: it claims due callbacks, seals them, posts them, judges the responses and
// settles.
//
// # The path of one attempt
//
//	claim → bind and seal → post, read → judge → settle
//
// There are two lanes, one for questions about withdrawals and one for all other callbacks. Each claims its own
// callbacks, so a backlog of deposits never delays a question. The number of cores bounds the RSA work of both, but not
// how many exchanges wait for merchants. Every claim has a lease. One deadline, shorter than the lease, bounds the
// whole exchange up to the last byte of the response, so no callback is ever in two attempts at once. No lease can
// exclude one case: a process that is stopped between its last look at the clock and its write sends that request when
// it goes on. Its answer counts for nothing, because settlements name their attempt.
//
// # What decides
//
// Judge and Schedule are pure. Judge takes a response and the time at which it was complete. It returns the attempt's
// result, a reason from a fixed list and, for a withdrawal, a decision. Only a complete, timely and exact confirmation
// confirms (PROTOCOL.md, D1).
package dispatch
