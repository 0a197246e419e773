package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"

	"countersign/client"
	"countersign/internal/console"
	"countersign/internal/db"
)

// consoleSealer seals what a console keeps in a browser, under a data key of its own that
// is sealed under the master key. So every node of one database can open it.
type consoleSealer struct{ d *db.DB }

var (
	consoleRecord  = db.Record{Table: "console"}
	consolePurpose = []string{"cookie"}
	errSealed      = errors.New("a sealed value is cut off")
)

// Seal gives the sealed data key, after its length, and the sealed text.
func (s consoleSealer) Seal(ctx context.Context, plain []byte) ([]byte, error) {
	key, sealed, err := s.d.Seal(ctx, consoleRecord, consolePurpose, [][]byte{plain})
	if err != nil {
		return nil, err
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(len(key)))
	return append(append(out, key...), sealed[0]...), nil
}

func (s consoleSealer) Open(ctx context.Context, sealed []byte) ([]byte, error) {
	if len(sealed) < 2 {
		return nil, errSealed
	}
	n := int(binary.BigEndian.Uint16(sealed))
	sealed = sealed[2:]
	if len(sealed) < n {
		return nil, errSealed
	}
	plain, err := s.d.Unseal(ctx, consoleRecord, consolePurpose, sealed[:n], [][]byte{sealed[n:]})
	if err != nil {
		return nil, err
	}
	return plain[0], nil
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
