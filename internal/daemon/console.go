package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/bodies"
	"countersign/internal/console"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// OIDC says with which identity provider people sign in.
type OIDC = api.OIDCConfig

// consoleSealer seals what a console keeps in a browser, under a data key of its own that
// is sealed under the master key. So every node of one database can open it.
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

// consoleConfig is what the consoles of both ends have in common. The database names the
// cookies: another one under the same host name has others. Its name is that of its audit log.
func consoleConfig(d *db.DB, l *journal.Log, held *bodies.Shares, now func() time.Time, log *slog.Logger) console.Config {
	return console.Config{Sealer: consoleSealer{d}, Database: l.Name(), Bodies: held, Now: now, Log: log, Version: Version}
}

// withConsole serves the console below /console/ and the API elsewhere. A nil console is
// not served.
func withConsole(api http.Handler, c *console.Console) http.Handler {
	if c == nil {
		return api
	}
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

// ConsoleLink is the address of the console, with a code that signs in with the token
// once. It is empty without a console. It is set by Open.
func (s *Service) ConsoleLink(token client.Secret) string {
	return consoleLink(s.api, s.console, token)
}

// ConsoleLink is Service.ConsoleLink of the gateway.
func (g *Gateway) ConsoleLink(token client.Secret) string {
	return consoleLink(g.api, g.console, token)
}

func consoleLink(api *Listener, c *console.Console, token client.Secret) string {
	if c == nil {
		return ""
	}
	return api.URL() + c.Link(token)
}
