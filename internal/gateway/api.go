package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

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

func seqOf(about string) (int64, error) {
	n, err := strconv.ParseInt(about, 10, 64)
	if err != nil || n <= 0 {
		return 0, db.ErrNotFound
	}
	return n, nil
}
