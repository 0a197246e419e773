package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"

	"countersign/internal/admin"
	"countersign/internal/api"
	"countersign/internal/audit"
	"countersign/internal/console"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Straight is the service's API in this process, without a listener, over the service's
// PostgreSQL database: a caller on the same machine saves the connection to the daemon. It
// is the same code as the daemon's, so it checks tokens, roles and every member, and
// keeps the same records. It sends no callbacks. Make it with OpenStraight, Run it once.
type Straight struct {
	db    *db.DB
	clock *db.Clock
	api   *admin.Server
	node  string
}

// OpenStraight opens the database, which a service of this version must have made. Of s it
// takes DB and the keys; no file is made.
func OpenStraight(ctx context.Context, s Storage, log *slog.Logger) (_ *Straight, err error) {
	if s.Keys == nil {
		if s.Keys, err = s.masterKey(); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s", ErrNoMasterKey, s.file(MasterKeyFile))
		} else if err != nil {
			return nil, fmt.Errorf("master key: %w", err)
		}
	}
	d, err := db.Open(ctx, db.Config{URL: s.DB, Keys: s.Keys, Log: log, Used: true, AsItIs: true}, outbox.End())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	clock, err := db.NewClock(ctx, d, log)
	if err != nil {
		return nil, fmt.Errorf("reading the database's clock: %w", err)
	}
	changes, err := api.NewChanges(api.ChangesConfig{DB: d, Now: clock.Now, Log: log})
	if err != nil {
		return nil, err
	}
	tokens := api.NewTokens(d)
	api, err := admin.New(admin.Config{Outbox: outbox.New(d), Lists: outbox.New(d.Apart()), Tokens: tokens, Passkeys: api.NewPasskeys(tokens), Control: changes,
		Now: clock.Now, Log: log, Version: Version,
		CheckURL: func(string, bool) error { return errors.New("is set at the service") }})
	if err != nil {
		return nil, err
	}
	return &Straight{db: d, clock: clock, api: api, node: thisProcess()}, nil
}

// Transport makes the calls of an HTTP client, whatever host they name.
func (s *Straight) Transport() http.RoundTripper {
	return straightTransport{s.node, console.InProcess{API: s.api.Handler(), Remote: "127.0.0.1:0"}}
}

// straightTransport says in what the calls record from which process they came.
type straightTransport struct {
	node string
	api  http.RoundTripper
}

func (t straightTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.api.RoundTrip(r.WithContext(audit.At(r.Context(), t.node)))
}

// Run follows the database's clock until ctx ends, then ends waiting calls.
func (s *Straight) Run(ctx context.Context) error {
	err := RunParts(ctx, Part{"clock", s.clock.Run}, Part{"database", s.db.Run})
	s.api.Stop()
	return err
}

// Close closes the database. No call may be under way.
func (s *Straight) Close() error { return s.db.Close() }
