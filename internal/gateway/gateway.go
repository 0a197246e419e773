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
	"context"
	"net/http"
	"time"

	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/merchant"
)

// Gateway is the merchant's end as a daemon. Use New to make one.
type Gateway struct {
	c        Config
	book     *book.Book
	handler  *merchant.Handler
	refusals *refusals
	sender   *sender // nil where nothing is forwarded

	// The private JSON API.
	lists   *book.Book // with connections of its own, for the calls that read lists
	changes *api.Changes
	base    *api.API
	mux     *http.ServeMux
}

// maxBody bounds the body of a request to the API, in bytes.
const maxBody = 64 << 10

// callTimeout bounds a call of the API, not counting the wait that it asks for. A database that does not answer then
// causes an error.
const callTimeout = 15 * time.Second

// API returns the handler of the private listener, for the merchant's own systems. It answers within a bounded time.
func (g *Gateway) API() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := callTimeout
		if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil && wait > 0 {
			limit += min(wait, time.Hour) // more than a minute is refused later on
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		g.mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Leave makes /readyz answer 503. Everything else goes on.
func (g *Gateway) Leave() { g.base.Leave() }

// Stop makes waiting API requests and open exchanges answer at once, and /readyz answer 503. It must be called before
// http.Server.Shutdown, which would otherwise wait for those requests.
func (g *Gateway) Stop() {
	g.handler.Stop()
	g.base.Stop()
}
