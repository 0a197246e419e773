// Package outbox stores the service's rows: the callbacks, their attempts, the withdrawals with their decisions, and
// the merchants.
//
// Every method that changes rows returns after a durable commit and can be repeated. Its comment says what a
// repetition does. Callers pass the time; the package reads no clock.
//
// A callback goes through Ingest (ingest.go), Claim (claim.go) and Settle (settle.go). Settle also makes the decision
// on a withdrawal. Release (release.go) issues a withdrawal's permit. Sweep (sweep.go) ends whatever nothing else has
// ended. Merchant (merchant.go) is a merchant with its settings and its keys, which are sealed at rest. pace.go says
// when a lane may send.
package outbox
