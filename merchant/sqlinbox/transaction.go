package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// transact runs fn in a transaction, again after a deadlock, and commits it if fn returns no error. If the commit
// fails, it may have happened or not. Repeating it is harmless, because fn then finds what was recorded.
func (in *Inbox) transact(ctx context.Context, fn func(t *transaction) error) error {
	return in.c.Dialect.repeated(ctx, func() error { return in.once(ctx, fn) })
}

func (in *Inbox) once(ctx context.Context, fn func(t *transaction) error) error {
	if in.turn != nil {
		select {
		case in.turn <- struct{}{}:
			defer func() { <-in.turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	tx, err := in.c.DB.BeginTx(ctx, in.c.Dialect.options())
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed, after a panic too
	if err := fn(&transaction{tx: tx, d: in.c.Dialect}); err != nil {
		return err
	}
	return tx.Commit()
}

// transaction is a *sql.Tx and its dialect.
type transaction struct {
	tx *sql.Tx
	d  Dialect
}

// exec returns the number of rows that were changed.
func (t *transaction) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	r, err := t.tx.ExecContext(ctx, t.d.text(statement), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// insert returns the number that the database gave to the row.
func (t *transaction) insert(ctx context.Context, statement string, args ...any) (seq int64, err error) {
	if t.d == MySQL {
		r, err := t.tx.ExecContext(ctx, t.d.text(statement), args...)
		if err != nil {
			return 0, err
		}
		return r.LastInsertId()
	}
	err = t.tx.QueryRowContext(ctx, t.d.text(statement+" RETURNING seq"), args...).Scan(&seq)
	return seq, err
}

// one scans the only row of a query and reports whether there is one.
func (t *transaction) one(ctx context.Context, statement string, args []any, into ...any) (bool, error) {
	err := t.tx.QueryRowContext(ctx, t.d.text(statement), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls row for every row of a query.
func (t *transaction) each(ctx context.Context, statement string, args []any,
	row func(scan func(...any) error) error) error {
	rows, err := t.tx.QueryContext(ctx, t.d.text(statement), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// marks returns n question marks for a list.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// wrapped says where err comes from. The Handler logs it and tells the service nothing.
func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlinbox: %w", err)
}
