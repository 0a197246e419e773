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
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"countersign/client"
)

// Config says which database to open.
type Config struct {
	URL  string       // required: path of a SQLite file, or postgres://… (several hosts allowed; without sslmode, servers off this machine must prove their names)
	Keys *MasterKey   // seals secrets at rest; required, or FindKeys
	Log  *slog.Logger // nil: discards
	// FindKeys returns the key if Keys is nil. It is called once the schema is up to date. newDatabase means that
	// nothing was ever sealed in this database.
	FindKeys func(newDatabase bool) (*MasterKey, error)
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

// Open opens the database at c.URL for end, brings its schema up to date and checks that c.Keys opens it. It returns
// ErrNewerSchema if a later version of this program wrote the schema, ErrOtherEnd if the database belongs to the
// other end, ErrMasterKey if another key sealed it, ErrInUse if another process has the SQLite file open, and
// ErrBroken if that file is damaged.
func Open(ctx context.Context, c Config, end End) (*DB, error) {
	if c.URL == "" || c.Keys == nil && c.FindKeys == nil || end.Name == "" || end.Migrations == nil {
		return nil, errors.New("opening the database: URL, Keys and an end are required")
	}
	if scheme, _, ok := strings.Cut(c.URL, "://"); ok && !isPostgres(c.URL) {
		return nil, fmt.Errorf("opening the database: a URL that begins with %s:// is not taken: give a postgres:// URL, or the path of a SQLite file", scheme)
	}
	d := &DB{end: end, log: c.Log, hub: &hub{}, health: &health{failed: make(chan struct{}, 1)}, world: c.World}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if err := d.open(ctx, c, end); err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	if err := d.setKey(ctx, c.Keys, c.FindKeys); err != nil {
		d.Close()
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return d, nil
}

// Migrate brings the schema of a database up to date. It opens nothing that is sealed. It returns the number of the
// schema before and now, and the lowest schema number whose programs still work with the database.
func Migrate(ctx context.Context, c Config, end End) (before, now, oldest int, err error) {
	d := &DB{end: end, log: c.Log, hub: &hub{}}
	if err := d.open(ctx, c, end); err != nil {
		return 0, 0, 0, fmt.Errorf("opening the database: %w", err)
	}
	now, oldest, err = readVersion(ctx, d)
	return d.before, now, oldest, errors.Join(err, d.Close())
}

func (d *DB) open(ctx context.Context, c Config, end End) error {
	if isPostgres(c.URL) {
		p, err := openPostgres(ctx, c.URL, end, d.log, d.hub)
		if err != nil {
			return err
		}
		d.backend, d.dialect, d.schema = p, p.d, p.schema
		return nil
	}
	s, err := openSQLite(ctx, c, end, d.log, d.hub)
	if err != nil {
		return err
	}
	d.backend, d.dialect, d.schema = s, s.d, s.schema
	return nil
}

// Dialect returns what kind of database this is.
func (d *DB) Dialect() *Dialect { return d.dialect }

// Log returns the log for failures of background work, which no call can return.
func (d *DB) Log() *slog.Logger { return d.log }

const serverNowSQL = `SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)`

// serverNow returns the time of the clock that all nodes share: that of PostgreSQL. With SQLite there is one process,
// so it is the local clock.
func (d *DB) serverNow(ctx context.Context) (Millis, error) {
	if !d.dialect.Shared {
		return MillisOf(time.Now()), nil
	}
	var now Millis
	_, err := One(ctx, d, serverNowSQL, nil, &now)
	return now, err
}

// Unsynced reports whether the last commit did not wait for the disk. Only WriteUnsynced on SQLite makes such commits.
func (d *DB) Unsynced() bool {
	s, ok := d.backend.(*sqliteDB)
	return ok && s.unsynced.Load()
}

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
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

// Every returns how long a background loop waits. usual is how long it usually waits.
func (d *DB) Every(usual time.Duration) time.Duration {
	if d.world.Every == nil {
		return usual
	}
	return d.world.Every(usual)
}
