package dispatch

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestExchangeTimeoutHolds: a merchant that answers late has all of --exchange-timeout, however
// long that is.
func TestExchangeTimeoutHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := roundTripper(TargetRules{AllowHTTP: true, AllowPrivate: true}, nil)
		rt.DialContext = fenced(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
					time.Sleep(50 * time.Second)
					_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
			return ours, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://merchant.test/notify", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		rt.CloseIdleConnections()
	})
}
