package daemon

import (
	"net/http"
	"strings"

	"countersign/internal/api"
	"countersign/internal/console"
)

// OIDC configures the identity provider with which people sign in.
type OIDC = api.OIDCConfig

// withConsole serves the console below /console/ and the API at all other paths.
func withConsole(api http.Handler, c *console.Console) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/console/"):
			c.ServeHTTP(w, r)
		case r.URL.Path == "/console":
			http.Redirect(w, r, "/console/", http.StatusMovedPermanently)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
