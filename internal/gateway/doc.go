// Package gateway is the merchant's daemon: it takes callbacks into a durable inbox, confirms withdrawals from a book
// of orders, and tells the merchant's own systems of both, by feeds and by signed HTTP.
//
// It has two listeners. The public one is a merchant.Handler, for the service alone. The private one is the JSON API
// for the merchant's own systems and people.
//
// A deposit, and the effects of a notice, are recorded in the transaction that records the callback. So once errCode 0
// is sent, the effect is in the database even if the process dies. A withdrawal is confirmed only if its order was
// found, agrees, and was moved to confirmed by one guarded statement. Its details never change.
package gateway
