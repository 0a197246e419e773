package db

import "errors"

// What callers branch on.
var (
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the same identifier is taken by other content, or
	// that a state does not allow the change. See ConflictError.
	ErrConflict = errors.New("conflict")
	// ErrInvalid means that a value can't be stored: text with a NUL or that
	// is not UTF-8, an identifier that breaks its rule.
	ErrInvalid = errors.New("not storable")
	// ErrMasterKey means that the key given to Open is not the one that sealed
	// this database.
	ErrMasterKey = errors.New("the master key does not open this database")
	// ErrNewerSchema means that a later version of this program has written
	// the database's schema.
	ErrNewerSchema = errors.New("the database was written by a later version")
	// ErrOtherEnd means that the database belongs to the other end of the
	// protocol, or to both.
	ErrOtherEnd = errors.New("the database is not this end's alone")
	// ErrInUse means that another process has the SQLite file open.
	ErrInUse = errors.New("the database is in use by another process")
	// ErrClosed means that the DB was closed.
	ErrClosed = errors.New("the database is closed")
	// ErrUnavailable means that the database cannot be reached at present, or broke
	// off: what was asked of it may have been done all the same.
	ErrUnavailable = errors.New("the database is not available")
)

// ConflictError says what stands in the way. It wraps ErrConflict.
type ConflictError struct {
	Item   int    // index in the batch, 0 outside one
	Member string // member of the request that conflicts, such as "trackingId"; may be empty
	Reason string // a clause, such as "is taken by a deposit with other content"
}

func (e *ConflictError) Error() string {
	if e.Member == "" {
		return e.Reason
	}
	return e.Member + " " + e.Reason
}

// Unwrap makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// ItemError says which item of a batch an error belongs to.
type ItemError struct {
	Item   int
	Member string // may be empty
	Err    error
}

func (e *ItemError) Error() string { return e.Err.Error() }

// Unwrap gives the error itself.
func (e *ItemError) Unwrap() error { return e.Err }
