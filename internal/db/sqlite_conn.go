package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "modernc.org/sqlite" // the driver
)

func (db *sqliteDB) reader(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := db.cached.Load(text); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := db.readers.PrepareContext(ctx, db.d.sql(text))
	if err != nil {
		return nil, explainSQLite(err)
	}
	if first, loaded := db.cached.LoadOrStore(text, s); loaded {
		s.Close()
		return first.(*sql.Stmt), nil
	}
	return s, nil
}

// readMost bounds a read outside a transaction, from the query to the last row. While
// it is open, the log cannot begin anew and grows with every write.
const readMost = 30 * time.Second

func (db *sqliteDB) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, db.readMost)
	s, err := db.reader(ctx, text)
	if err != nil {
		cancel()
		return nil, err
	}
	r, err := s.QueryContext(ctx, args...)
	if err != nil {
		cancel()
		return nil, explainSQLite(err)
	}
	return sqliteRows{r, cancel}, nil
}

func (db *sqliteDB) Exec(context.Context, string, ...any) (int64, error) {
	return 0, errors.New("writing outside a transaction")
}

func (db *sqliteDB) Batch(ctx context.Context, list []Statement) error { return inTurn(ctx, db, list) }

// sqliteConn is one connection with its prepared statements: the writer's or the
// checkpointer's. Only one goroutine uses it.
type sqliteConn struct {
	d        *Dialect
	pool     *sql.DB // of this connection alone
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

func openSQLiteConn(ctx context.Context, d *Dialect, dsn string) (*sqliteConn, error) {
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &sqliteConn{d: d, pool: pool, conn: conn, prepared: map[string]*sql.Stmt{}}, nil
}

func (c *sqliteConn) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := c.prepared[text]; ok {
		return s, nil
	}
	s, err := c.conn.PrepareContext(ctx, c.d.sql(text))
	if err != nil {
		return nil, err
	}
	c.prepared[text] = s
	return s, nil
}

// control runs BEGIN, COMMIT, ROLLBACK and savepoints.
func (c *sqliteConn) control(ctx context.Context, text string) error {
	_, err := c.Exec(ctx, text)
	return err
}

// unprepared runs several statements, or a PRAGMA that takes effect while it is
// prepared: a prepared one would have no effect when it runs again.
func (c *sqliteConn) unprepared(ctx context.Context, text string) error {
	_, err := c.conn.ExecContext(ctx, text)
	return err
}

func (c *sqliteConn) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	s, err := c.stmt(ctx, text)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c *sqliteConn) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	s, err := c.stmt(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (c *sqliteConn) Batch(ctx context.Context, list []Statement) error { return inTurn(ctx, c, list) }

func (c *sqliteConn) close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.conn.Close(), c.pool.Close())...)
}

// inTurn runs the statements of a batch one by one. Without a network, a batch saves
// nothing.
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
