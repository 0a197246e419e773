package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresDB is a connection pool, and a bell that notifies nodes of each other's commits.
type postgresDB struct {
	poolReads
	d     *Dialect
	end   End
	lists *pgxpool.Pool // of DB.ForLists
	log   *slog.Logger
	hub   *hub
	bell  *bell
	link  *Links
	schema
	closed atomic.Bool
	damage *damage
}

// poolSize is how many connections a node uses if the URL has no pool_max_conns. They are enough for ingest and
// settlement to share syncs.
const poolSize = 16

// sessionSettings apply to every connection unless the URL sets them.
//
// The planner's settings: every statement reads few rows by an index, whatever the statistics say. With these
// settings, a plan does not become a scan of a whole table that has grown or was never analysed.
//
// The time-outs: a node that is stopped or cut off inside a transaction must not keep its rows locked, and the server
// must detect that the node is gone. There must be no statement timeout. If it ends a COMMIT that waits for the
// standby, PostgreSQL reports success with a warning.
var sessionSettings = []struct{ name, value string }{
	{"plan_cache_mode", "force_generic_plan"}, {"jit", "off"},
	{"enable_seqscan", "off"}, {"enable_bitmapscan", "off"}, {"enable_hashjoin", "off"}, {"enable_mergejoin", "off"},
	{"max_parallel_workers_per_gather", "0"},        // a page of a list would start two processes for its 50 rows
	{"enable_material", "off"},                      // for an empty table it would seem cheaper than row look-ups
	{"idle_in_transaction_session_timeout", "3000"}, // milliseconds; a transaction here takes a few
	{"statement_timeout", "0"},
	{"tcp_user_timeout", "30000"},                                                                   // milliseconds
	{"tcp_keepalives_idle", "30"}, {"tcp_keepalives_interval", "10"}, {"tcp_keepalives_count", "3"}, // seconds
}

// settings returns the statements for sessionSettings.
func settings(url string) (list []string) {
	for _, s := range sessionSettings {
		if !strings.Contains(url, s.name) {
			list = append(list, "SET "+s.name+" = "+s.value)
		}
	}
	return list
}

// durable makes what was acknowledged survive a crash, whatever the server's default. It is a statement because
// PgBouncer refuses it as a startup parameter of the connection.
const durable = "SET synchronous_commit = on"

// apply returns a function that applies the settings to each new connection of a pool.
func apply(list []string) func(context.Context, *pgx.Conn) error {
	text := strings.Join(list, ";")
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, text)
		return err
	}
}

// PoolConfig returns the configuration of a pool for any PostgreSQL database, which need not belong to an End. It has
// this package's rules for TLS, and its connections leave a server that died or was replaced. If the Links are
// Several, their Watch must run.
func PoolConfig(url string, log *slog.Logger) (*pgxpool.Config, *Links, error) {
	c, err := parseConfig(url)
	if err != nil || !isPostgres(url) {
		// The cause may repeat the URL, which may hold a password.
		return nil, nil, errors.New("the database URL is not valid: write postgres://user:password@host/database?option=value")
	}
	if !strings.Contains(url, "pool_ping_timeout") {
		c.PingTimeout = stalled // for a connection that was idle
	}
	if c.ConnConfig.ConnectTimeout == 0 && !strings.Contains(url, "connect_timeout") {
		c.ConnConfig.ConnectTimeout = connectTimeout(c.ConnConfig)
	}
	l := newLinks(c.ConnConfig, log)
	c.BeforeConnect = l.beforeConnect
	return c, l, nil
}

// openPostgres connects and brings the schema up to date.
func openPostgres(ctx context.Context, url string, end End, log *slog.Logger, h *hub) (*postgresDB, error) {
	db, err := connectPostgres(ctx, url, end, log, h)
	if err != nil {
		return nil, err
	}
	if db.schema, err = migrate(ctx, db, db.d, end); err == nil {
		few := db.pool.Config()
		few.MinConns, few.MinIdleConns, few.MaxConns = 0, 0, min(few.MaxConns, listConns)
		few.AfterConnect = apply(append(settings(url), "SET default_transaction_read_only = on"))
		db.lists, err = pgxpool.NewWithConfig(ctx, few)
	}
	if err != nil {
		db.pool.Close()
		return nil, err
	}
	db.bell = newBell(db.pool, db.link, h, log)
	return db, nil
}

// connectPostgres connects and changes nothing.
func connectPostgres(ctx context.Context, url string, end End, log *slog.Logger, h *hub) (*postgresDB, error) {
	c, l, err := PoolConfig(url, log)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = poolSize
	}
	params := c.ConnConfig.RuntimeParams
	params["application_name"] = "countersign"
	list := settings(url)
	if params["synchronous_commit"] == "" { // a URL can ask for more, such as remote_apply
		list = append(list, durable)
	}
	c.AfterConnect = apply(list)
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connecting to the database: %w", explainTLS(url, err))
	}
	db := &postgresDB{d: newPostgresDialect(), end: end, hub: h, link: l, log: log, damage: &damage{log: log}}
	db.poolReads = poolReads{db, pool}
	return db, nil
}

func (db *postgresDB) Ping(ctx context.Context) error {
	if err := db.damage.seen(); err != nil {
		return err
	}
	return db.explain(db.pool.Ping(ctx))
}

// gone returns nil, because the files are the server's.
func (db *postgresDB) gone() error { return nil }

func (db *postgresDB) Close() error {
	if db.closed.CompareAndSwap(false, true) {
		db.bell.close()
		db.lists.Close()
		db.pool.Close()
	}
	return nil
}

// retries is how often a transaction is begun again after a serialization failure or a deadlock, both of which leave
// nothing done.
const retries = 20

// longestPause is the longest pause before a transaction is begun again. Pauses double up to it, so that callers that
// make each other fail separate, even on a busy machine.
const longestPause = 250 * time.Millisecond

// write waits for the disk in any case. If a failover undid a claim, another node would claim the same work while the
// first still does it.
func (db *postgresDB) write(ctx context.Context, _ bool, fn func(context.Context, *Tx) error) error {
	if err := db.damage.seen(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		t, err := db.try(ctx, fn)
		if err == nil {
			runLater(ctx, t.later)
			t.here.every(db.hub.WakeHere)
			db.bell.ring(t.abroad)
			return nil
		}
		if n == retries || !retryable(err) {
			return err
		}
		if !Sleep(ctx, rand.N(min(4*time.Millisecond<<n, longestPause))) {
			return err
		}
	}
}

func (db *postgresDB) try(ctx context.Context, fn func(context.Context, *Tx) error) (*Tx, error) {
	conn, begun, err := db.begin(ctx)
	if err != nil {
		return nil, db.explain(err)
	}
	defer conn.Release()
	// A rollback must reach the server even if ctx has ended.
	defer begun.Rollback(context.WithoutCancel(ctx))
	t := &Tx{Querier: pgQuerier{db.d, begun}, concurrent: true}
	err = fn(ctx, t)
	if err == nil {
		err = t.finish(ctx, db.end)
	}
	if err != nil {
		if code(err) == readOnly {
			conn.Conn().Close(ctx) // the pool must not keep it
		}
		return nil, db.explain(err)
	}
	data := conn.Conn().PgConn().CustomData()
	delete(data, warned)
	if err := begun.Commit(ctx); err != nil {
		return nil, fmt.Errorf("committing: %w", db.explain(err))
	}
	if warning, _ := data[warned].(string); warning != "" {
		// The server was made to stop waiting for its standby. It reports the transaction as committed, but a
		// failover would undo it.
		return nil, fmt.Errorf("committing: %w: %s", ErrUnavailable, warning)
	}
	return t, nil
}

// begin starts a transaction at read committed, whatever the server's default is: statements lock what they judge, and a
// stricter level would fail those that wait for each other. It skips connections that broke while they were idle, which
// is safe because nothing was sent on them yet. There are at most as many as the pool holds.
func (db *postgresDB) begin(ctx context.Context) (*pgxpool.Conn, pgx.Tx, error) {
	for n := db.pool.Config().MaxConns; ; n-- {
		conn, err := db.pool.Acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		begun, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err == nil {
			return conn, begun, nil
		}
		broken := conn.Conn().IsClosed()
		conn.Release()
		if !broken || n <= 0 || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

// laterWithin is the time limit of the functions of Tx.Later, because the caller waits for them.
const laterWithin = 5 * time.Second

func runLater(ctx context.Context, later []func(context.Context)) {
	if len(later) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), laterWithin)
	defer cancel()
	for _, fn := range later {
		fn(ctx)
	}
}

const unsyncedSQL = `SELECT set_config('synchronous_commit', 'off', true)`

// Hint runs statements in one transaction that does not wait for the disk, so a crash can undo it. It is for changes
// without which the work would still be found, only later.
func (d *DB) Hint(ctx context.Context, list ...Statement) error {
	p, ok := d.backend.(*postgresDB)
	if !ok {
		return d.WriteUnsynced(ctx, func(ctx context.Context, t *Tx) error { return t.Batch(ctx, list) })
	}
	return p.Batch(ctx, append([]Statement{{SQL: unsyncedSQL, Row: func(Rows) error { return nil }}}, list...))
}

// migrationLock is the advisory lock that nodes take to migrate one after another.
const migrationLock = 0x636f756e74657273 // "counters"

func (db *postgresDB) run(ctx context.Context, fn func(Querier) error) error {
	// The level is set here whatever the URL asks for, because run must see what was committed before it got the
	// lock.
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, db.pool, options, func(t pgx.Tx) error {
		if _, err := t.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		return fn(pgQuerier{db.d, t})
	})
}

// poolReads runs reads on a pool, outside transactions.
type poolReads struct {
	db   *postgresDB
	pool *pgxpool.Pool
}

func (db *postgresDB) views() Querier { return poolReads{db, db.lists} }

func (r poolReads) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	n, err := pgQuerier{r.db.d, r.pool}.Exec(ctx, text, args...)
	return n, r.db.explain(err)
}

func (r poolReads) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	rows, err := pgQuerier{r.db.d, r.pool}.Query(ctx, text, args...)
	if err != nil {
		return nil, r.db.explain(err)
	}
	return outsideRows{rows, r.db.explain, func() {}}, nil
}

func (r poolReads) Batch(ctx context.Context, list []Statement) error {
	return r.db.explain(pgQuerier{r.db.d, r.pool}.Batch(ctx, list))
}

// pgConn is a pool or a transaction.
type pgConn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

type pgQuerier struct {
	d    *Dialect
	conn pgConn
}

func (q pgQuerier) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	tag, err := q.conn.Exec(ctx, q.d.sql(text), args...)
	return tag.RowsAffected(), err
}

func (q pgQuerier) Query(ctx context.Context, text string, args ...any) (Rows, error) {
	r, err := q.conn.Query(ctx, q.d.sql(text), args...)
	if err != nil {
		return nil, err
	}
	return pgRows{r}, nil
}

func (q pgQuerier) Batch(ctx context.Context, list []Statement) (err error) {
	if len(list) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, s := range list {
		b.Queue(q.d.sql(s.SQL), s.Args...)
	}
	results := q.conn.SendBatch(ctx, b)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	for _, s := range list {
		if s.Row != nil {
			r, err := results.Query()
			if err != nil {
				return err
			}
			if err := drain(pgRows{r}, s.Row); err != nil {
				return err
			}
			continue
		}
		tag, err := results.Exec()
		if err != nil {
			return err
		}
		if s.N != nil {
			*s.N = tag.RowsAffected()
		}
	}
	return nil
}

// pgRows adapts pgx.Rows to the interface Rows.
type pgRows struct{ pgx.Rows }

func (r pgRows) Close() error {
	r.Rows.Close()
	return r.Rows.Err()
}

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
		return slices.ContainsFunc([]string{"08", "53", "58", "XX", "57P"},
			func(class string) bool { return strings.HasPrefix(c, class) }) ||
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
