package daemon

import (
	"strings"
	"testing"
)

// TestForeignHosts: a page whose name leads to the loopback reads neither the API nor the
// metrics there; a name that a proxy passes on has to be allowed.
func TestForeignHosts(t *testing.T) {
	s, _ := startService(t, ServiceConfig{Common: Common{Storage: Storage{Dir: t.TempDir()}, MetricsListen: "127.0.0.1:0", TLS: TLS{Hosts: []string{"wallet.example"}}}})
	for _, url := range []string{s.listeners[0].URL() + "/metrics", s.URL() + "/openapi.json", s.URL() + "/console/signin"} {
		for host, want := range map[string]int{
			"": 200, "localhost": 200, "LOCALHOST:99": 200, "127.0.0.1": 200, "127.0.0.1:80": 200, "[::1]": 200, "[::1]:80": 200, "wallet.example": 200, "Wallet.Example:443": 200,
			"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "127.0.0.1.evil.example": 421, "[fe80::1]:80": 421,
		} {
			if status, body := getAs(t, url, host); status != want || want == 421 && !strings.Contains(body, "--allowed-host") {
				t.Errorf("%s as %q: %d %.200s", url, host, status, body)
			}
		}
	}
}
