// Package gateway is the merchant's daemon: it takes callbacks into a durable
// inbox, confirms withdrawals from a book of orders, and tells the merchant's
// own systems what happened, by feeds and by signed HTTP.
//
// Two listeners face two ways. The public one is a merchant.Handler with the
// Inbox of this package, for the service alone. The private one is the JSON API
// for the merchant's own systems and people.
//
// A deposit and whatever follows from a callback of types 3 to 7 is recorded in
// the transaction that records the callback, so an errCode 0 that left the
// process is found again whatever happens next. A withdrawal is confirmed only
// where its order was found, agrees, and one guarded statement moved it to
// confirmed; its details never change.
package gateway
