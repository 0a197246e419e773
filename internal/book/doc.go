// Package book is the merchant's rows: the inbox of callbacks, the orders, the
// feeds of what happened and what of them is forwarded; it is a merchant.Inbox.
//
// Every method that changes something returns after a durable commit and can be
// repeated; its comment says what a repetition gives. Times are passed in; nothing
// here reads a clock.
package book
