// Package outbox is the service's rows: the callbacks that it must say, their
// attempts, the withdrawals with what was decided of them, and the merchants.
//
// Every method that changes something returns after a durable commit and can be
// repeated; its comment says what a repetition gives. Times are passed in; nothing
// here reads a clock.
package outbox
