// Package db is an open database, SQLite or PostgreSQL behind one interface: transactions, migrations, the clock and
// the wake-ups that its nodes share, and secrets sealed at rest.
//
// One SQL text serves both kinds; Dialect holds their differences. When Write returns nil, the change is durable. A
// call that fails because its context ended or the connection broke may or may not have changed the database, so every
// change must be safe to repeat.
package db

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"countersign/client"
)

// Config says which database to open.
type Config struct {
	URL  string       // required: path of a SQLite file, or postgres://… (several hosts allowed; without sslmode, servers off this machine must prove their names)
	Keys *MasterKey   // seals secrets at rest; required, or FindKeys
	Log  *slog.Logger // nil: discards
	// FindKeys returns the key if Keys is nil. It is called once the schema is up to date, with the fingerprint of the
	// key that sealed everything in the database, or "" if nothing was ever sealed in it.
	FindKeys func(fingerprint string) (*MasterKey, error)
	// Used means that the database was used before. A SQLite file that is missing or empty is then refused, and not
	// created.
	Used bool
	// Restoring opens a backup, in order to begin an epoch. Without it a backup is refused with ErrOlder.
	Restoring bool
	World     World
}

// End describes the database of one of the two ends.
type End struct {
	Name string // "service" or "merchant"; a database belongs to one end
	// Migrations hold the steps of the schema as migrations/0001_name.sql, 0002_name.sql, …. One text serves both
	// databases; see the marks of Dialect.
	Migrations []fs.FS
	// Sealed lists the tables with values that are sealed under the master key.
	Sealed []SealedTable
	// Keep writes the records of a transaction to the audit log, as the last step of that transaction. Nil: there is
	// no log, and records are dropped.
	Keep func(ctx context.Context, t *Tx, records []LogRecord) error
	// Acked is called in the transaction that acknowledges an alarm. Nil: nothing is called.
	Acked func(ctx context.Context, t *Tx, a client.Alarm) error
}

// World is what a database takes from its machine. The zero World is the real machine. The simulation sets another
// one.
type World struct {
	// Elapsed is a monotonic clock that also counts while the machine sleeps. Nil: the machine's.
	Elapsed func() time.Duration
	// Every returns how long a background loop waits without a wake-up. usual is how long it usually waits. Nil:
	// usual.
	Every func(usual time.Duration) time.Duration
	// Write is called before each statement of SQLite's writer, with its text. If it returns an error, the statement
	// is not run, and the error counts as one of the disk. Nil: it is not called.
	Write func(statement string) error
}

// DB is an open database. Several goroutines may use its methods at once. Its Querier methods read outside a
// transaction.
type DB struct {
	backend
	*hub
	end End
	key *MasterKey
	schema
	log     *slog.Logger
	dialect *Dialect
	health  *health
	world   World
}

// schema holds numbers of the schema.
type schema struct {
	before int // when the database was opened; 0: it had none
	knows  int // the last number that this program knows
}

// health holds the result of the last write.
type health struct {
	last    atomic.Pointer[written]
	probing atomic.Pointer[time.Time] // when the small write under way began; nil: there is none
	failed  chan struct{}             // buffered 1: a write has failed
	beside  atomic.Pointer[error]     // the last value passed to Beside
}

// written is the result of a write.
type written struct {
	err error // wraps ErrFull or ErrUnavailable; nil: the database takes writes
	at  time.Time
}

// Write runs fn in a transaction and returns after a durable commit. fn may run more than once and must reset its
// variables each time. Their values count only if Write returns nil.
func (d *DB) Write(ctx context.Context, fn func(ctx context.Context, t *Tx) error) error {
	return d.health.wrote(d.backend.write(ctx, false, fn))
}

// WriteUnsynced is Write for changes that a power loss may undo: SQLite does not wait for the disk. The changes
// survive a crash of the process at once, and a crash of the machine after the next Write.
func (d *DB) WriteUnsynced(ctx context.Context, fn func(ctx context.Context, t *Tx) error) error {
	return d.health.wrote(d.backend.write(ctx, true, fn))
}

// wrote stores the result of a write and returns its error. An error of the caller's own function says nothing about
// the database and is not stored.
func (h *health) wrote(err error) error {
	switch {
	case err == nil:
		h.last.Store(&written{at: time.Now()})
	case errors.Is(err, ErrFull), errors.Is(err, ErrUnavailable):
		h.last.Store(&written{err: err, at: time.Now()})
		select {
		case h.failed <- struct{}{}:
		default:
		}
	}
	return err
}

// Dialect returns what kind of database this is.
func (d *DB) Dialect() *Dialect { return d.dialect }

// Log returns the log for failures of background work, which no call can return.
func (d *DB) Log() *slog.Logger { return d.log }

// Every returns how long a background loop waits. usual is how long it usually waits.
func (d *DB) Every(usual time.Duration) time.Duration {
	if d.world.Every == nil {
		return usual
	}
	return d.world.Every(usual)
}

// listConns is how many connections the reads of DB.ForLists have together.
const listConns = 4

// ForLists returns d with separate connections for reads outside transactions. All callers share these few
// connections. Whole lists are read on them, so that lists never take a connection from the work. Transactions still
// use the connections of d.
func (d *DB) ForLists() *DB {
	a := *d
	a.backend = struct {
		Querier
		work
	}{d.backend.views(), d.backend}
	return &a
}

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}
