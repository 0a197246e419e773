package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"

	"modernc.org/sqlite"
)

func (db *sqliteDB) reader(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := db.cached.Load(text); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := db.readers.PrepareContext(ctx, db.d.SQL(text))
	if err != nil {
		return nil, err
	}
	if first, loaded := db.cached.LoadOrStore(text, s); loaded {
		s.Close()
		return first.(*sql.Stmt), nil
	}
	return s, nil
}

func (db *sqliteDB) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	s, err := db.reader(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (db *sqliteDB) Exec(context.Context, string, ...any) (int64, error) {
	return 0, errors.New("writing outside a transaction")
}

func (db *sqliteDB) Batch(ctx context.Context, list []Statement) error { return inTurn(ctx, db, list) }

// sqliteConn is the writer's connection with its prepared statements. Only one
// goroutine uses it, so that it speaks to the driver itself: what database/sql
// does for a pool costs as much as a small statement.
type sqliteConn struct {
	d        *Dialect
	conn     driver.Conn
	prepared map[string]driver.Stmt
	args     []driver.NamedValue
	spare    []*sqliteRows
}

func openSQLiteConn(ctx context.Context, d *Dialect, dsn string) (*sqliteConn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &sqliteConn{d: d, conn: conn, prepared: map[string]driver.Stmt{}}, nil
}

func (c *sqliteConn) stmt(text string) (driver.Stmt, error) {
	if s, ok := c.prepared[text]; ok {
		return s, nil
	}
	s, err := c.conn.Prepare(c.d.SQL(text))
	if err != nil {
		return nil, err
	}
	c.prepared[text] = s
	return s, nil
}

// control runs BEGIN, COMMIT and their like.
func (c *sqliteConn) control(ctx context.Context, text string) error {
	_, err := c.Exec(ctx, text)
	return err
}

// unprepared runs a PRAGMA that has its effect while it is prepared, so that a
// statement kept from before would have none.
func (c *sqliteConn) unprepared(ctx context.Context, text string) error {
	_, err := c.conn.(driver.ExecerContext).ExecContext(ctx, text, nil)
	return err
}

// bind gives args as the driver takes them, until the next call.
func (c *sqliteConn) bind(args []any) ([]driver.NamedValue, error) {
	c.args = c.args[:0]
	for i, a := range args {
		v, err := driverValue(a)
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args, nil
}

func (c *sqliteConn) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	s, err := c.stmt(text)
	if err != nil {
		return 0, err
	}
	bound, err := c.bind(args)
	if err != nil {
		return 0, err
	}
	r, err := s.(driver.StmtExecContext).ExecContext(ctx, bound)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c *sqliteConn) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	s, err := c.stmt(text)
	if err != nil {
		return nil, err
	}
	bound, err := c.bind(args)
	if err != nil {
		return nil, err
	}
	got, err := s.(driver.StmtQueryContext).QueryContext(ctx, bound)
	if err != nil {
		return nil, err
	}
	var r *sqliteRows
	if n := len(c.spare); n > 0 {
		r, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		r = &sqliteRows{conn: c}
	}
	r.rows, r.err, r.closed = got, nil, false
	r.values = slices.Grow(r.values[:0], len(got.Columns()))[:len(got.Columns())]
	return r, nil
}

func (c *sqliteConn) Batch(ctx context.Context, list []Statement) error { return inTurn(ctx, c, list) }

func (c *sqliteConn) close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// sqliteRows are the rows of one query of the writer. Closed, they serve the
// next.
type sqliteRows struct {
	conn   *sqliteConn
	rows   driver.Rows
	values []driver.Value
	err    error
	closed bool
}

func (r *sqliteRows) Next() bool {
	if r.err = r.rows.Next(r.values); errors.Is(r.err, io.EOF) {
		r.err = nil
		return false
	}
	return r.err == nil
}

func (r *sqliteRows) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("scanning %d columns into %d variables", len(r.values), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, r.values[i]); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

func (r *sqliteRows) Err() error { return r.err }

func (r *sqliteRows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	clear(r.values)
	err := r.rows.Close()
	r.conn.spare = append(r.conn.spare, r)
	return err
}

// inTurn runs a batch one by one: without a network there is nothing to save.
func inTurn(ctx context.Context, q Querier, list []Statement) error {
	for _, s := range list {
		if s.Row != nil {
			if err := Each(ctx, q, s.SQL, s.Args, s.Row); err != nil {
				return err
			}
			continue
		}
		n, err := q.Exec(ctx, s.SQL, s.Args...)
		if err != nil {
			return err
		}
		if s.N != nil {
			*s.N = n
		}
	}
	return nil
}
