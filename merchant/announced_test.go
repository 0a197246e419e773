package merchant_test

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/countersigntest"
	"countersign/merchant"
)

// TestAnnouncedBodies: bodies that are announced and do not come use up the budget of
// all bodies with what came of them, and a request beyond it gets a 503.
func TestAnnouncedBodies(t *testing.T) {
	const callers, room = 50, 4 << 10
	w := newWorld(t, countersigntest.ServiceConfig{}, func(c *merchant.Config) { c.MaxBodies = callers * room; c.BodyTimeout = time.Hour })
	server := httptest.NewServer(w.handler)
	defer server.Close()
	post := func(announced int, text string) net.Conn {
		c := must(net.Dial("tcp", server.Listener.Addr().String()))(t)
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nX-API-KEY: %s\r\nContent-Length: %d\r\n\r\n%s",
			merchant.DefaultNotifyPath, w.service.CallbackAPIKey().Reveal(), announced, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	var open []net.Conn
	for range callers {
		open = append(open, post(65_000, "x"))
	}
	for merchant.HeldBodies(w.handler) < callers*room {
		time.Sleep(time.Millisecond)
	}
	c := post(2, "xx") // one byte takes nothing
	defer c.Close()
	b := make([]byte, 1000)
	n, _ := io.ReadAtLeast(c, b, 12)
	if got := string(b[:n]); !strings.HasPrefix(got, "HTTP/1.1 503") || !strings.Contains(got, "Retry-After: 1") {
		t.Errorf("a body beyond the budget gets %q", got)
	}
	for _, c := range open {
		c.Close()
	}
	// The reason of the last request counts below, so all others must have ended.
	for merchant.HeldBodies(w.handler) > 0 || w.observed() <= callers {
		time.Sleep(time.Millisecond)
	}
	w.accepted(t, w.service.Deliver(t.Context(), countersigntest.ToHandler(w.handler), countersigntest.Deposit(1)), merchant.ReasonAccepted)
}
