package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// explain maps errors of the server: to ErrUnavailable if it cannot be reached or does not work, to ErrFull if its
// disk has no room, and to ErrClosed if the database was closed.
func (db *postgresDB) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case db.closed.Load():
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case slices.Contains(damagedCodes, code(err)):
		if !errors.Is(err, ErrBroken) {
			err = fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrBroken, err)
		}
		return db.damage.explain(err)
	case code(err) == diskFull && !errors.Is(err, ErrFull):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case unreachable(err) && !errors.Is(err, ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func unreachable(err error) bool {
	var connecting *pgconn.ConnectError
	var network net.Error
	c := code(err)
	switch {
	case errors.As(err, &connecting):
		// Connecting failed for some reason. This check comes first, because the error of connect_timeout is the same
		// as that of the caller's context.
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false // the caller's own
	case c != "":
		// These are connection exceptions, a server that stops or starts, no memory or connection left, failures of
		// its disk, damaged data, rights that were revoked, and a session that was idle in its transaction.
		return slices.ContainsFunc([]string{"08", "53", "58", "XX", "57P"}, func(class string) bool { return strings.HasPrefix(c, class) }) ||
			c == "42501" || c == "25P03" || c == readOnly
	}
	return errors.As(err, &network) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// retryable reports whether err is a serialization failure, including one at the commit, a deadlock, or a write to a
// server that stopped taking writes while the connection was open.
func retryable(err error) bool {
	c := code(err)
	return c == "40001" || c == "40P01" || c == readOnly
}

const (
	readOnly = "25006" // a write to a server that no longer takes writes
	diskFull = "53100"
)

// damagedCodes are the codes of a damaged page and a damaged index.
var damagedCodes = []string{"XX001", "XX002"}

// code returns PostgreSQL's error code. It returns "" for any other error.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
