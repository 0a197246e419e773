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

import (
	"net/http"

	"countersign/internal/book"
	"countersign/merchant"
)

// Gateway is the merchant's end as a daemon. Use New to make one.
type Gateway struct {
	c        Config
	book     *book.Book
	handler  *merchant.Handler
	api      *server
	refusals *refusals
	sender   *sender // nil where nothing is forwarded
}

// API returns the handler of the private listener, for the merchant's own systems.
func (g *Gateway) API() http.Handler { return g.api }

// Leave makes /readyz answer 503. Everything else goes on.
func (g *Gateway) Leave() { g.api.base.Leave() }

// Stop makes waiting API requests and open exchanges answer at once, and /readyz answer 503. It must be called before
// http.Server.Shutdown, which would otherwise wait for those requests.
func (g *Gateway) Stop() {
	g.handler.Stop()
	g.api.stop()
}
