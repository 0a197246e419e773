// Package store keeps what must survive a restart, for both ends of the
// protocol, in SQLite or PostgreSQL with one SQL text.
//
// Every change that callers rely on has been committed durably when its method
// returns. A method that returns an error because its context ended or the
// connection broke may have been done all the same: every method can be
// repeated, and says what a repetition gives.
package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"
)

// Config is what Open needs.
type Config struct {
	URL  string       // required: path of a SQLite file, or postgres://… (several hosts allowed)
	Keys KeyWrapper   // required: seals secrets at rest
	Log  *slog.Logger // nil: discards
}

// Store is the database of one end. Its methods may be used from several
// goroutines at once.
type Store struct {
	cfg     Config
	log     *slog.Logger
	dialect *dialect
}

// errNotYet stands in for what is still being written.
var errNotYet = errors.New("not yet")

// Open opens the database at c.URL, brings its schema up to date and checks
// that c.Keys opens it. It fails with ErrNewerSchema where a later version of
// this program wrote the schema, with ErrMasterKey where the key is another
// one, and with ErrInUse where another process has the SQLite file.
func Open(ctx context.Context, c Config) (*Store, error) { return nil, errNotYet }

// Close ends background work and closes the database. Calls that still wait
// fail with ErrClosed.
func (s *Store) Close() error { return errNotYet }

// Ping checks that the database answers.
func (s *Store) Ping(ctx context.Context) error { return errNotYet }

// Dialect is "sqlite" or "postgres".
func (s *Store) Dialect() string { return s.dialect.name }

// ServerNow is the clock that all nodes of the database share: PostgreSQL's
// own. With SQLite there is one process, so its local clock is that clock.
// Nodes take their offset from it at start.
func (s *Store) ServerNow(ctx context.Context) (Millis, error) { return 0, errNotYet }

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}
