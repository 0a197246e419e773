package store

import "errors"

// What callers branch on, beside ErrNotFound and ErrConflict.
var (
	// ErrInvalid means that a value can't be stored: text with a NUL or that
	// is not UTF-8, an identifier that breaks its rule.
	ErrInvalid = errors.New("not storable")
	// ErrMasterKey means that the key given to Open is not the one that sealed
	// this database.
	ErrMasterKey = errors.New("the master key does not open this database")
	// ErrNewerSchema means that a later version of this program has written
	// the database's schema.
	ErrNewerSchema = errors.New("the database was written by a later version")
	// ErrInUse means that another process has the SQLite file open.
	ErrInUse = errors.New("the database is in use by another process")
	// ErrClosed means that the Store was closed.
	ErrClosed = errors.New("the store is closed")
)
