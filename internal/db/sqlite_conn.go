package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	_ "modernc.org/sqlite" // the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteDSN returns the DSN that opens the file at path.
func sqliteDSN(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}, "_dqs": {"0"}, "_pragma": append([]string{
		"busy_timeout(10000)", "synchronous(FULL)", "foreign_keys(ON)", "temp_store(MEMORY)",
	}, pragmas...)}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

// sqliteReaders is a pool of connections that only read, with their prepared statements.
type sqliteReaders struct {
	d        *Dialect
	damage   *damage
	pool     *sql.DB
	readMost time.Duration // limit of one read
	cached   sync.Map      // text → *sql.Stmt
}

func openSQLiteReaders(d *Dialect, damage *damage, dsn string, conns int) (*sqliteReaders, error) {
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, explainSQLite(err)
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return &sqliteReaders{d: d, damage: damage, pool: pool, readMost: readMost}, nil
}

func (r *sqliteReaders) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := r.cached.Load(text); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := r.pool.PrepareContext(ctx, r.d.sql(text))
	if err != nil {
		return nil, r.damage.explain(err)
	}
	if first, loaded := r.cached.LoadOrStore(text, s); loaded {
		s.Close()
		return first.(*sql.Stmt), nil
	}
	return s, nil
}

// readMost is the time limit of a read outside a transaction, from the query to the last row. While a read is open,
// the log cannot start again and grows with every write.
const readMost = 30 * time.Second

func (r *sqliteReaders) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, r.readMost)
	s, err := r.stmt(ctx, text)
	if err != nil {
		cancel()
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		cancel()
		return nil, r.damage.explain(err)
	}
	return outsideRows{rows, r.damage.explain, cancel}, nil
}

func (r *sqliteReaders) Exec(context.Context, string, ...any) (int64, error) {
	return 0, errors.New("writing outside a transaction")
}

func (r *sqliteReaders) Batch(ctx context.Context, list []Statement) error {
	return inTurn(ctx, r, list)
}

func (r *sqliteReaders) close() error {
	var errs []error
	r.cached.Range(func(_, s any) bool { errs = append(errs, s.(*sql.Stmt).Close()); return true })
	return errors.Join(append(errs, r.pool.Close())...)
}

// sqliteConn is one connection with its prepared statements. Only one goroutine uses it.
type sqliteConn struct {
	d        *Dialect
	pool     *sql.DB // of this connection alone
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	before   func(statement string) error // World.Write of the writer; nil: it is not called
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
	if c.before != nil {
		if err := c.before(text); err != nil {
			return nil, err
		}
	}
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

// control runs BEGIN, COMMIT, ROLLBACK and pragmas.
func (c *sqliteConn) control(ctx context.Context, text string) error {
	_, err := c.Exec(ctx, text)
	return err
}

// unprepared runs several statements, or a PRAGMA that takes effect while it is prepared. Such a PRAGMA would have no
// effect if a prepared statement of it ran again.
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

// run uses only the writer's connection. That suffices, because the file lock keeps other processes out and the
// writer has not started yet.
func (c *sqliteConn) run(ctx context.Context, fn func(Querier) error) error {
	if err := c.control(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn(c)
	if err == nil {
		err = c.control(ctx, "COMMIT")
	}
	if err != nil {
		return errors.Join(err, c.control(context.WithoutCancel(ctx), "ROLLBACK"))
	}
	return nil
}

func (c *sqliteConn) close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.conn.Close(), c.pool.Close())...)
}

// inTurn runs the statements of a batch one by one. Without a network, a batch saves nothing.
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

// outsideRows are rows that are read outside a transaction. They explain the error that ends the reading, because no
// other code does, and call end.
type outsideRows struct {
	Rows
	explain func(error) error
	end     func()
}

func (r outsideRows) Err() error { return r.explain(r.Rows.Err()) }

func (r outsideRows) Close() error {
	defer r.end()
	return r.explain(r.Rows.Close())
}
