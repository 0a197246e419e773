package store

import (
	"context"
	"database/sql"
	"errors"
)

func (db *sqliteDB) reader(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := db.cached.Load(text); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := db.readers.PrepareContext(ctx, db.d.sql(text))
	if err != nil {
		return nil, err
	}
	if first, loaded := db.cached.LoadOrStore(text, s); loaded {
		s.Close()
		return first.(*sql.Stmt), nil
	}
	return s, nil
}

func (db *sqliteDB) query(ctx context.Context, text string, args ...any) (rows, error) {
	s, err := db.reader(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (db *sqliteDB) exec(context.Context, string, ...any) (int64, error) {
	return 0, errors.New("writing outside a transaction")
}

func (db *sqliteDB) batch(ctx context.Context, list []statement) error { return inTurn(ctx, db, list) }

// sqliteConn is the writer's connection with its prepared statements. Only one
// goroutine uses it.
type sqliteConn struct {
	d        *dialect
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
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

// control runs BEGIN, COMMIT and their like.
func (c *sqliteConn) control(ctx context.Context, text string) error {
	_, err := c.exec(ctx, text)
	return err
}

func (c *sqliteConn) exec(ctx context.Context, text string, args ...any) (int64, error) {
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

func (c *sqliteConn) query(ctx context.Context, text string, args ...any) (rows, error) {
	s, err := c.stmt(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (c *sqliteConn) batch(ctx context.Context, list []statement) error { return inTurn(ctx, c, list) }

func (c *sqliteConn) close() error {
	for _, s := range c.prepared {
		s.Close()
	}
	return c.conn.Close()
}

// inTurn runs a batch one by one: without a network there is nothing to save.
func inTurn(ctx context.Context, q querier, list []statement) error {
	for _, s := range list {
		if s.row != nil {
			if err := each(ctx, q, s.sql, s.args, s.row); err != nil {
				return err
			}
			continue
		}
		n, err := q.exec(ctx, s.sql, s.args...)
		if err != nil {
			return err
		}
		if s.n != nil {
			*s.n = n
		}
	}
	return nil
}
