package demo

import (
	"net/http"
	"strings"
	"sync"

	"countersign/conformance"
	"countersign/envelope"
	"countersign/internal/gateway"
)

// tap shows what reaches the demo's merchant while an exchange is tried.
type tap struct {
	mu  sync.Mutex
	got strings.Builder
}

// Write is for gateway.Shower.
func (t *tap) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got.Write(b)
}

// said returns what came since the last call.
func (t *tap) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.got.Reset()
	return strings.TrimSpace(t.got.String())
}

// wrap wraps the merchant's handler. It shows what the page sends, but not the service's own callbacks, which go on
// meanwhile.
func (t *tap) wrap(key *envelope.Key, next http.Handler) http.Handler {
	shown := &gateway.Shower{CallbackReader: gateway.CallbackReader{Key: key}, Next: next, Out: t}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("User-Agent") == conformance.UserAgent {
			shown.ServeHTTP(w, r)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}
