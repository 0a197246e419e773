package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/merchant"
)

// maxBody bounds the body of a request to the API, in bytes.
const maxBody = 64 << 10

// server is the private JSON API.
type server struct {
	c       Config
	book    *book.Book
	lists   *book.Book // with connections of its own, for the calls that read lists
	changes *api.Changes
	retry   func(ctx context.Context, body []byte, signed bool) merchant.Retried // takes a refused callback
	base    *api.API
	mux     *http.ServeMux
}

func newAPI(b *book.Book, c Config, retry func(context.Context, []byte, bool) merchant.Retried) (*server, error) {
	a := &server{c: c, book: b, lists: book.New(b.DB.ForLists(), book.Config{}), retry: retry}
	var err error
	if a.changes, err = api.NewChanges(api.ChangesConfig{DB: b.DB, Approvals: c.ChangeApprovals, OIDC: c.OIDC,
		Roles: client.Role("").AtGateway(), Now: c.Now, Log: c.Log}); err != nil {
		return nil, err
	}
	a.changes.TellOfWaiting = func(ctx context.Context, now db.Millis) error {
		return a.tasks().TellOfWaiting(ctx, a.book.DB, now)
	}
	a.base, err = api.New(api.Config{
		Process: c.Process, Self: "the gateway", Title: title, Description: description, TokenDescription: tokenUse,
		Tags:   tags,
		Tokens: a.changes.Tokens(), MaxBody: maxBody,
		Words: api.GatewayWords(),
	}, a.table())
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	a.mux = a.base.Mux()
	return a, nil
}

// callTimeout bounds a call of the API, not counting the wait that it asks for. A database that does not answer then
// causes an error.
const callTimeout = 15 * time.Second

// ServeHTTP answers within a bounded time.
func (a *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := callTimeout
	if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil && wait > 0 {
		limit += min(wait, time.Hour) // more than a minute is refused later on
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	a.mux.ServeHTTP(w, r.WithContext(ctx))
}

func (a *server) stop() { a.base.Stop() }

const (
	title       = "countersign gateway API"
	description = "The merchant's end: orders to be confirmed, deposits that were taken, and what happened to both. " +
		"Errors are problem details (RFC 9457) that name the member at fault. " + api.Notation
	tokenUse = "a token of this gateway; its role must be one of the operation's x-roles"
)

var tags = map[string]string{
	"orders":     "Withdrawals that the merchant orders before the service asks for them",
	"deposits":   "The feed of deposits that the service reported",
	"addresses":  "What the service reported of users' deposit addresses; one that replaces another awaits a person",
	"events":     "The feed of what happened to orders, addresses and held deposits",
	"cursors":    "How far readers have acknowledged the feeds",
	"forwarding": "How far the feeds were forwarded to the application",
	"policy":     "What decides on orders",
	"callbacks":  "The inbox: the callbacks of the service",
	"refused":    "Callbacks that were refused although they opened or came with the right API key",
}
