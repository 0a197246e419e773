package api

import (
	"net/http/httptest"
	"testing"
)

// One site has all addresses of its IPv6 network, and counts as one.
func TestGuesser(t *testing.T) {
	of := func(address string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address
		return guesser(r).String()
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"[2001:db8:1:2::3]:1", "[2001:db8:1:ffff::4]:2", true}, {"[2001:db8:1::]:1", "[2001:db8:2::]:1", false},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", true}, {"192.0.2.1:1", "192.0.2.2:1", false},
	} {
		if got := of(c.a) == of(c.b); got != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}
