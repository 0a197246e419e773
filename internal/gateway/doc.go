// Package gateway is the merchant's daemon: it takes callbacks into a durable
// inbox, confirms withdrawals from a book of orders, and tells the merchant's
// own systems what happened, by feeds and by signed HTTP.
//
// Two listeners face two ways. The public one is a merchant.Handler with the
// Inbox of this package, for the service alone. The private one is the JSON API
// for the merchant's own systems and people.
//
// A deposit, and the effects of a notice, are recorded in the transaction that
// records the callback. So after an errCode 0 was sent, its effect
// is in the database even if the process dies. A withdrawal is confirmed only where
// its order was found, agrees, and one guarded statement moved it to confirmed; its
// details never change.
package gateway
