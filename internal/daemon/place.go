package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/outbox"
	"countersign/internal/reconcile"
)

// Place is the database of an end, for commands. But for Backup and Migrate, no process may have a SQLite database open
// meanwhile.
type Place struct {
	// Storage is where the end keeps its state. Its Dir is required.
	Storage
	// Gateway selects a gateway's database, otherwise the service's.
	Gateway bool
	// Log gets the lines of opening the database. Required.
	Log *slog.Logger
	// step is called with the name of each step of Rekey and Move before it. A test ends the process there. Nil: nothing
	// is called.
	step func(string)
}

func (p Place) at(step string) {
	if p.step != nil {
		p.step(step)
	}
}

func endOf(gateway bool) db.End {
	if gateway {
		return book.End()
	}
	return outbox.End()
}

// change opens an existing database, calls do as a node with a name, and closes the database. A missing database is an
// error: a new, empty one would agree with everything that it is not asked for.
func (p Place) change(ctx context.Context, name string, do func(context.Context, *db.DB, db.Millis) error) error {
	err := db.Look(ctx, p.url(), endOf(p.Gateway), p.Log, func(l db.Seen) error {
		if !l.Made {
			return p.noDatabase("give --data or --db of the end that is meant")
		}
		return nil
	})
	if err != nil {
		return err
	}
	d, err := p.open(ctx, p.Log, endOf(p.Gateway))
	if err != nil {
		return err
	}
	return errors.Join(do(journal.At(ctx, name), d, db.MillisOf(time.Now())), d.Close())
}

// EndApprovers revokes the tokens of all approvers, so that changes no longer wait for anybody, and returns their ids.
func (p Place) EndApprovers(ctx context.Context) (ids []string, err error) {
	err = p.change(ctx, "no-approvers", func(ctx context.Context, d *db.DB, now db.Millis) error {
		ids, err = api.EndApprovers(ctx, d, now)
		return err
	})
	return ids, err
}

// Reconcile compares the database with files of others, by reconcile.Service or reconcile.Gateway. It sets c.Now.
func (p Place) Reconcile(ctx context.Context, c reconcile.Config) (ended bool, err error) {
	err = p.change(ctx, "reconcile", func(ctx context.Context, d *db.DB, now db.Millis) error {
		if c.Now = now; p.Gateway {
			ended, err = reconcile.Gateway(ctx, book.New(d, book.Config{}), c)
		} else {
			ended, err = reconcile.Service(ctx, outbox.New(d), c)
		}
		return err
	})
	return ended, err
}

// Migrated is what Migrate did.
type Migrated struct {
	Database string `json:"database"` // "sqlite" or "postgres"
	From     int    `json:"from"`     // the number of its schema before, 0 if there was none
	To       int    `json:"to"`
	// Oldest is the lowest schema number whose programs now work with the database.
	Oldest int `json:"oldest"`
}

// Migrate brings the schema up to date. It opens nothing sealed, so it needs no master key.
func (p Place) Migrate(ctx context.Context) (m Migrated, err error) {
	if p.DB == "" {
		if _, err := os.Stat(p.Dir); err != nil {
			return m, fmt.Errorf("data directory: %w", err)
		}
	}
	m.Database = "sqlite"
	if p.DB != "" {
		m.Database = "postgres"
	}
	m.From, m.To, m.Oldest, err = db.Migrate(ctx, db.Config{URL: p.url(), Log: p.Log}, endOf(p.Gateway))
	return m, err
}

// MovedDatabase is what Move did.
type MovedDatabase struct {
	db.Moved
	Kept string `json:"kept"` // the file of SQLite, under another name
}

// Move takes the SQLite database of Dir to the PostgreSQL database DB, with the same master key. No process may use
// either. It may be interrupted at any point and run again. At the end it renames the file, so that no daemon goes on
// using it.
func (p Place) Move(ctx context.Context) (m MovedDatabase, err error) {
	if p.DB == "" {
		return m, errors.New("--db is missing: give the PostgreSQL database to move to")
	}
	file := p.file(DatabaseFile)
	m.Kept = file + ".moved"
	if _, err := os.Lstat(m.Kept); err == nil {
		return m, fmt.Errorf("%s is there: an earlier database was moved from this directory", m.Kept)
	}
	if _, err := os.Stat(file); err != nil {
		return m, Storage{Dir: p.Dir}.noDatabase("give --data of the end that is moved")
	}
	if m.Moved, err = db.Move(ctx, db.Config{URL: file, Log: p.Log, Used: true}, db.Config{URL: p.DB, Log: p.Log},
		endOf(p.Gateway)); err != nil {
		return m, err
	}
	p.at("renaming")
	if err := os.Rename(file, m.Kept); err != nil {
		return m, err
	}
	return m, syncDir(p.Dir)
}

// Held is what a backup holds.
type Held = db.Held

// Backup writes a copy of the SQLite database of a data directory to a new file. A process may use the database
// meanwhile. The copy contains no secret file.
func Backup(ctx context.Context, dir, to string) (Held, error) {
	h, err := db.Backup(ctx, Storage{Dir: dir}.file(DatabaseFile), to)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; a PostgreSQL database is backed up by its own means: see docs/operator/backup.md", err)
	}
	return h, err
}
