package daemon

import (
	"context"
	"net/http"
	"strings"
	"time"

	"countersign/internal/api"
	"countersign/internal/console"
	"countersign/internal/db"
)

// OIDC configures the identity provider with which people sign in.
type OIDC = api.OIDCConfig

// consoleSealer seals what a console keeps in a browser. Its data key is sealed under the master key, so every node of
// one database can open it.
type consoleSealer struct{ d *db.DB }

var consoleRecord = db.Record{Table: "console"}

func (s consoleSealer) Seal(_ context.Context, plain []byte) ([]byte, error) {
	return s.d.SealText(consoleRecord, "cookie", plain), nil
}

func (s consoleSealer) Open(_ context.Context, sealed []byte) ([]byte, error) {
	return s.d.OpenText(consoleRecord, "cookie", sealed)
}

func (s consoleSealer) EndSession(ctx context.Context, id string, now, until time.Time) error {
	_, err := s.d.EndSession(ctx, id, db.MillisOf(now), db.MillisOf(until))
	return err
}

func (s consoleSealer) SessionEnded(ctx context.Context, id string) (bool, error) {
	return s.d.SessionEnded(ctx, id)
}

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
