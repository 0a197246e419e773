package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/store/storetest"
)

// A session that ends while a read waits for its rows is the database's
// failure, not the caller's and not ours, wherever in the read it comes.
func TestReadBrokenOff(t *testing.T) {
	dbURL := storetest.Postgres(t)
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
	if _, err := one(ctx, s.db, `SELECT pg_backend_pid()`, nil, &session); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := other.db.write(bounded, func(ctx context.Context, tx *tx) error {
		if _, err := tx.exec(ctx, `LOCK TABLE merchants IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		broken := make(chan error, 1)
		go func() { broken <- read() }()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			// Outside of this transaction, which would be shown the same for ever.
			if _, err := one(ctx, other.db, `SELECT COALESCE(wait_event_type, '') = 'Lock' FROM pg_stat_activity WHERE pid = $1`, []any{session}, &waits); err != nil {
				return err
			}
		}
		if _, err := tx.exec(ctx, `SELECT pg_terminate_backend($1)`, session); err != nil {
			return err
		}
		if err := <-broken; !errors.Is(err, ErrUnavailable) {
			t.Errorf("the read: %v, want %v", err, ErrUnavailable)
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
	dbURL := storetest.Postgres(t)
	s := openAt(t, dbURL)
	at, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(at.Path, "/")
	at.Path = "/postgres"
	allow := func(allowed bool) {
		storetest.Exec(t, at.String(), fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %v", name, allowed))
	}
	allow(false)
	storetest.Exec(t, at.String(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	if _, err := s.Merchant(ctx, "m0"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a read: %v, want %v", err, ErrUnavailable)
	}
	if _, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a write: %v, want %v", err, ErrUnavailable)
	}
	allow(true)
	if _, err := s.Merchant(ctx, "m0"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after it: %v, want %v", err, ErrNotFound)
	}
}

// The bound of connecting, connect_timeout, ends it with the same error as the
// end of the caller's patience would. Only the first is the database's.
func TestConnectTimeout(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	_, err = pgx.Connect(ctx, "postgres://u@"+mute.Addr().String()+"/db?sslmode=disable&connect_timeout=1")
	if !errors.Is((&postgresDB{}).explain(err), ErrUnavailable) {
		t.Errorf("connecting: %v, want %v", err, ErrUnavailable)
	}
	if err := (&postgresDB{}).explain(fmt.Errorf("acquiring: %w", context.DeadlineExceeded)); errors.Is(err, ErrUnavailable) {
		t.Errorf("the caller's deadline: %v, want no %v", err, ErrUnavailable)
	}
}
