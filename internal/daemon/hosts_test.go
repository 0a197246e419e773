package daemon

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestForeignHosts: a page whose name leads to the loopback reads neither the API nor the
// metrics there; a name that a proxy passes on has to be allowed.
func TestForeignHosts(t *testing.T) {
	s, err := NewService(ServiceConfig{Storage: Storage{Dir: t.TempDir()}, Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0", TLS: TLS{Hosts: []string{"wallet.example"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	transport := &http.Transport{DisableKeepAlives: true}
	ask := func(url, host string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for _, url := range []string{s.metrics.URL() + "/metrics", s.URL() + "/openapi.json", s.URL() + "/console/signin"} {
		for host, want := range map[string]int{
			"": 200, "localhost": 200, "LOCALHOST:99": 200, "127.0.0.1": 200, "127.0.0.1:80": 200, "[::1]": 200, "[::1]:80": 200, "wallet.example": 200, "Wallet.Example:443": 200,
			"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "127.0.0.1.evil.example": 421, "[fe80::1]:80": 421,
		} {
			if status, body := ask(url, host); status != want || want == 421 && !strings.Contains(body, "--allowed-host") {
				t.Errorf("%s as %q: %d %.200s", url, host, status, body)
			}
		}
	}
}
