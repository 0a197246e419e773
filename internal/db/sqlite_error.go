package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// explainSQLite maps the errors of a full disk to ErrFull, and those of a file that cannot be read or written to
// ErrUnavailable. Damaged pages are also ErrBroken.
func explainSQLite(err error) error {
	if errors.Is(err, ErrFull) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBroken) {
		return err
	}
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // the file beside the log cannot grow
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrBroken, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// damage remembers that pages of an open file are damaged. Most calls do not read those pages and succeed, so without
// it the daemon would stay ready.
type damage struct {
	log *slog.Logger
	met atomic.Pointer[error]
}

// explain is explainSQLite, and also remembers damaged pages.
func (d *damage) explain(err error) error {
	err = explainSQLite(err)
	if errors.Is(err, ErrBroken) && d.met.CompareAndSwap(nil, &err) {
		d.log.Error("pages of the database are damaged; restore a backup", "error", err.Error())
	}
	return err
}

// seen returns the error about damaged pages. It returns nil if explain saw none.
func (d *damage) seen() error {
	if err := d.met.Load(); err != nil {
		return *err
	}
	return nil
}

// sqliteCode returns SQLite's primary code of err. It returns 0 for any other error.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// sqliteRows are rows that are read outside a transaction. They end after readMost.
type sqliteRows struct {
	*sql.Rows
	cancel context.CancelFunc
	damage *damage
}

func (r sqliteRows) Err() error { return r.damage.explain(r.Rows.Err()) }

func (r sqliteRows) Close() error {
	defer r.cancel()
	return r.damage.explain(r.Rows.Close())
}
