package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"countersign/internal/db"
)

// MoveConfig is what Move needs.
type MoveConfig struct {
	// Storage is where the end keeps its state. Dir has the SQLite database; DB is the URL of the PostgreSQL database
	// that gets it.
	Storage
	// Gateway moves a gateway's database, otherwise the service's.
	Gateway bool
	// Log gets the lines of opening the databases. Nil: discards.
	Log *slog.Logger
	// moved is called when PostgreSQL has everything and the file still has its name. A test ends the process there.
	// Nil: nothing is called.
	moved func()
}

// MovedDatabase is what Move did.
type MovedDatabase struct {
	db.Moved
	Kept string `json:"kept"` // the file of SQLite, under another name
}

// Move takes the database of an end from SQLite to PostgreSQL, with the same master key. No process may use either. It
// may be interrupted at any point and run again. At the end it renames the file, so that no daemon goes on using it.
func Move(ctx context.Context, c MoveConfig) (m MovedDatabase, err error) {
	if c.DB == "" {
		return m, errors.New("--db is missing: give the PostgreSQL database to move to")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	file, end := c.file(DatabaseFile), endOf(c.Gateway)
	m.Kept = file + ".moved"
	if _, err := os.Lstat(m.Kept); err == nil {
		return m, fmt.Errorf("%s is there: an earlier database was moved from this directory", m.Kept)
	}
	if _, err := os.Stat(file); err != nil {
		return m, Storage{Dir: c.Dir}.noDatabase("give --data of the end that is moved")
	}
	if m.Moved, err = db.Move(ctx, db.Config{URL: file, Log: c.Log, Used: true}, db.Config{URL: c.DB, Log: c.Log}, end); err != nil {
		return m, err
	}
	if c.moved != nil {
		c.moved()
	}
	if err := os.Rename(file, m.Kept); err != nil {
		return m, err
	}
	return m, syncDir(c.Dir)
}
