package outbox

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// A session that ends while a read waits for its rows is the database's
// failure, not the caller's and not ours, wherever in the read it comes.
func TestReadBrokenOff(t *testing.T) {
	dbURL := dbtest.Postgres(t)
	s, other := openAt(t, dbURL+"&pool_max_conns=1"), openAt(t, dbURL)
	addMerchants(t, s, 1, nil)
	read := func() error {
		_, err := s.Merchant(ctx, "m0")
		return err
	}
	if err := read(); err != nil { // from now on the statement is prepared
		t.Fatal(err)
	}
	var session int
	if _, err := db.One(ctx, s, `SELECT pg_backend_pid()`, nil, &session); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := other.Write(bounded, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE merchants IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		broken := make(chan error, 1)
		go func() { broken <- read() }()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			// Outside of this transaction, which would be shown the same for ever.
			if _, err := db.One(ctx, other, `SELECT COALESCE(wait_event_type, '') = 'Lock' FROM pg_stat_activity WHERE pid = $1`, []any{session}, &waits); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `SELECT pg_terminate_backend($1)`, session); err != nil {
			return err
		}
		if err := <-broken; !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("the read: %v, want %v", err, db.ErrUnavailable)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Errorf("the next read: %v", err)
	}
}

// A server that lets nobody into the database, for maintenance, is one that
// cannot be reached for now, whatever code it gives.
func TestNoConnectionsAllowed(t *testing.T) {
	dbURL := dbtest.Postgres(t)
	s := openAt(t, dbURL)
	at, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(at.Path, "/")
	at.Path = "/postgres"
	allow := func(allowed bool) {
		dbtest.Exec(t, at.String(), fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", name, allowed))
	}
	allow(false)
	dbtest.Exec(t, at.String(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	if _, err := s.Merchant(ctx, "m0"); !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("a read: %v, want %v", err, db.ErrUnavailable)
	}
	if _, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("a write: %v, want %v", err, db.ErrUnavailable)
	}
	allow(true)
	if _, err := s.Merchant(ctx, "m0"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("after it: %v, want %v", err, db.ErrNotFound)
	}
}
