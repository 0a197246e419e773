package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// explainSQLite maps the errors of a full disk to ErrFull, and those of a file that
// cannot be read or written to ErrUnavailable.
func explainSQLite(err error) error {
	if errors.Is(err, ErrFull) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBroken) {
		return err
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// sqliteCode is SQLite's primary code of err, 0 for any other error.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// sqliteRows are read outside a transaction. They end when their time is over.
type sqliteRows struct {
	*sql.Rows
	cancel context.CancelFunc
}

func (r sqliteRows) Err() error { return explainSQLite(r.Rows.Err()) }

func (r sqliteRows) Close() error {
	defer r.cancel()
	return explainSQLite(r.Rows.Close())
}
