package db

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// The errors that callers branch on.
var (
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrPurged means that the row was deleted because of its age (--retain-days). The error's text says what is
	// known of it.
	ErrPurged = errors.New("purged")
	// ErrConflict means that the identifier is in use with other content, or that a state does not allow the change.
	// See ConflictError.
	ErrConflict = errors.New("conflict")
	// ErrInvalid means that a value cannot be stored: a text with U+0000, a text that is not UTF-8, or an identifier
	// that breaks its rule.
	ErrInvalid = errors.New("not storable")
	// ErrMasterKey means that the key given to Open is not the one that sealed this database.
	ErrMasterKey = errors.New("the master key does not open this database")
	// ErrNewerSchema means that a later version of this program has written the database's schema.
	ErrNewerSchema = errors.New("the database was written by a later version")
	// ErrOutdated means that the schema is older than this program, and that the program's role in the database may not
	// change it.
	ErrOutdated = errors.New("the database is not up to date")
	// ErrOtherEnd means that the database belongs to the other end of the protocol, or to both.
	ErrOtherEnd = errors.New("the database has tables of another program")
	// ErrInUse means that another process has the SQLite file open.
	ErrInUse = errors.New("the database is in use by another process")
	// ErrBroken means that the file of a SQLite database is missing, empty, cut off or damaged. Nothing was changed.
	ErrBroken = errors.New("the database is incomplete")
	// ErrGone means that the file of a SQLite database, or of its log, was removed or replaced while it was in use.
	ErrGone = errors.New("the database was removed or replaced while it was in use")
	// ErrClosed means that the DB was closed.
	ErrClosed = errors.New("the database is closed")
	// ErrUnavailable means that the database cannot be reached, read or written, or that the connection broke. The
	// call may or may not have changed the database.
	ErrUnavailable = errors.New("the database is not available")
	// ErrFull means that the database has no room left on its disk. The call has changed nothing.
	ErrFull = errors.New("the disk of the database is full")
)

// ConflictError says what prevents a change. It wraps ErrConflict.
type ConflictError struct {
	Item   int    // index in the batch, 0 outside one
	Member string // member of the request that conflicts, such as "trackingId"; may be empty
	Code   string // a fixed word for programs; may be empty
	Reason string // a clause, such as "is taken by a deposit with other content"
}

func (e *ConflictError) Error() string {
	if e.Member == "" {
		return e.Reason
	}
	return e.Member + " " + e.Reason
}

// Both returns a Reason for two contents that differ: the member, with both values.
func Both(member string, known, came any) string {
	return fmt.Sprintf("%s: %.100q is known, and %.100q came", member, fmt.Sprint(known), fmt.Sprint(came))
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

// Unwrap returns Err.
func (e *ItemError) Unwrap() error { return e.Err }

// errBeside means that files beside the database cannot be written.
var errBeside = errors.New("the data directory cannot be written")

// Cause returns in a few words why a database is not available, without the addresses in the error. It returns "" if
// the error says no more than its kind.
func Cause(err error) string {
	var server *pgconn.PgError
	var network *net.OpError
	var system syscall.Errno
	switch {
	case errors.Is(err, errBeside) && errors.As(err, &system):
		return errBeside.Error() + ": " + system.Error()
	case errors.As(err, &server):
		return server.Message
	case errors.As(err, &network):
		return network.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "the database does not answer"
	}
	return ""
}

// MasterKeyError names the key that was used and the key that opens the database. It wraps ErrMasterKey.
type MasterKeyError struct{ Key, Database string } // fingerprints

func (e *MasterKeyError) Error() string {
	return ErrMasterKey.Error() + ": it has the fingerprint " + e.Key + ", the key of the database " + e.Database
}

// Unwrap makes errors.Is(err, ErrMasterKey) true.
func (e *MasterKeyError) Unwrap() error { return ErrMasterKey }
