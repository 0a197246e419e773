// Package book stores the merchant's rows: the inbox of callbacks, the orders, the feeds of events and the queue of
// forwards. It implements merchant.Inbox.
//
// Every method that changes rows returns after a durable commit and may be repeated. Its comment says what a
// repetition returns. Callers pass the time; the package reads no clock.
package book
