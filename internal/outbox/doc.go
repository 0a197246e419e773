// Package outbox keeps the service's rows: the callbacks, their attempts, the
// withdrawals with their decisions, and the merchants.
//
// Every method that changes rows returns after a durable commit and can be
// repeated; its comment says what a repetition gives. Callers pass the time; the
// package reads no clock.
package outbox
