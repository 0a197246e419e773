// Package book keeps the merchant's rows: the inbox of callbacks, the orders, the
// feeds of events and the queue of forwards; it is a merchant.Inbox.
//
// Every method that changes rows returns after a durable commit and can be
// repeated; its comment says what a repetition gives. Callers pass the time; the
// package reads no clock.
package book
