package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresDB is a pool, a listener for what other nodes commit and a notifier
// that tells them of ours.
type postgresDB struct {
	d      *dialect
	pool   *pgxpool.Pool
	log    *slog.Logger
	commit func(*tx) // after each commit
	bell   *bell
	closed atomic.Bool
}

// poolSize is how many connections a node uses where the URL does not say
// (pool_max_conns): enough that ingest and settlement share syncs.
const poolSize = 16

// planning: every statement here reads few rows by an index, whatever the
// statistics say. Plans made once, that way, do not turn into scans of whole
// tables when a table has grown or was never analysed.
const planning = `SET plan_cache_mode = force_generic_plan; SET jit = off;
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	SET enable_hashjoin = off; SET enable_mergejoin = off`

func openPostgres(ctx context.Context, url string, log *slog.Logger, h *hub, committed func(*tx)) (*postgresDB, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The cause may repeat the URL, and that may hold a password.
		return nil, errors.New("the database URL is not valid: want postgres://user:password@host/database?option=value")
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = poolSize
	}
	// What has been answered must survive a crash, whatever the server's
	// default is. A URL can ask for more, such as remote_apply.
	params := c.ConnConfig.RuntimeParams
	if params["synchronous_commit"] == "" {
		params["synchronous_commit"] = "on"
	}
	params["application_name"] = "countersign"
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, planning)
		return err
	}
	// Of several hosts, the one that takes writes.
	if c.ConnConfig.ValidateConnect == nil {
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	db := &postgresDB{d: newPostgresDialect(), pool: pool, log: log, commit: committed}
	steps, err := readMigrations(migrations, db.d.name)
	if err == nil {
		err = migrate(ctx, db, steps)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	db.bell = newBell(pool, h, log)
	return db, nil
}

func (db *postgresDB) ping(ctx context.Context) error { return db.orClosed(db.pool.Ping(ctx)) }

func (db *postgresDB) close() error {
	if db.closed.CompareAndSwap(false, true) {
		db.bell.close()
		db.pool.Close()
	}
	return nil
}

// orClosed says in our word why nothing works any more.
func (db *postgresDB) orClosed(err error) error {
	if err != nil && db.closed.Load() {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// retries bounds how often a transaction is begun again after a serialization
// failure or a deadlock, both of which leave nothing done.
const retries = 20

func (db *postgresDB) write(ctx context.Context, fn func(context.Context, *tx) error) error {
	for n := 1; ; n++ {
		t, err := db.try(ctx, fn)
		if err == nil {
			db.touch(ctx, t.touches)
			db.commit(t)
			for topic, woken := range t.abroad {
				if woken {
					db.bell.ring(Topic(topic))
				}
			}
			return nil
		}
		if n == retries || !retryable(err) {
			return err
		}
		pause := time.NewTimer(time.Duration(rand.IntN(n*4)+1) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

func (db *postgresDB) try(ctx context.Context, fn func(context.Context, *tx) error) (*tx, error) {
	begun, err := db.pool.Begin(ctx)
	if err != nil {
		return nil, db.orClosed(err)
	}
	// A rollback must reach the server also where ctx has ended.
	defer begun.Rollback(context.WithoutCancel(ctx))
	t := &tx{querier: pgQuerier{db.d, begun}}
	if err := fn(ctx, t); err != nil {
		return nil, err
	}
	if err := begun.Commit(ctx); err != nil {
		return nil, fmt.Errorf("committing: %w", err)
	}
	return t, nil
}

// retryable: serialization failure, deadlock.
func retryable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

const touchSQL = `UPDATE lanes SET next_due = $3 WHERE merchant = $1 AND lane = $2 AND next_due > $3`

// touch tells lanes of new work, in a transaction after the one that made the
// work. Inside it, every ingest would hold the lane's row until its commit, and
// claims, which skip rows that are held, would find nothing. The order also
// closes a race: a claim that looked for waiting rows before the ingest's
// commit either has committed before this statement, which then corrects it,
// or looks once more after its own commit (Store.recheck). What a crash in
// between loses, Sweep finds, so that this commit need not wait for the disk.
func (db *postgresDB) touch(ctx context.Context, touches []touch) {
	if len(touches) == 0 {
		return
	}
	list := []statement{{sql: `SELECT set_config('synchronous_commit', 'off', true)`, row: func(rows) error { return nil }}}
	for _, w := range touches {
		list = append(list, statement{sql: touchSQL, args: []any{w.merchant, int64(w.lane), int64(w.due)}})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := db.batch(ctx, list); err != nil && !errors.Is(err, ErrClosed) {
		db.log.Warn("new work waits for the next sweep", "error", err)
	}
}

func (db *postgresDB) exec(ctx context.Context, text string, args ...any) (int64, error) {
	n, err := pgQuerier{db.d, db.pool}.exec(ctx, text, args...)
	return n, db.orClosed(err)
}

func (db *postgresDB) query(ctx context.Context, text string, args ...any) (rows, error) {
	r, err := pgQuerier{db.d, db.pool}.query(ctx, text, args...)
	return r, db.orClosed(err)
}

func (db *postgresDB) batch(ctx context.Context, list []statement) error {
	return db.orClosed(pgQuerier{db.d, db.pool}.batch(ctx, list))
}

// pgConn is a pool or a transaction.
type pgConn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

type pgQuerier struct {
	d    *dialect
	conn pgConn
}

func (q pgQuerier) exec(ctx context.Context, text string, args ...any) (int64, error) {
	tag, err := q.conn.Exec(ctx, q.d.sql(text), args...)
	return tag.RowsAffected(), err
}

func (q pgQuerier) query(ctx context.Context, text string, args ...any) (rows, error) {
	r, err := q.conn.Query(ctx, q.d.sql(text), args...)
	if err != nil {
		return nil, err
	}
	return pgRows{r}, nil
}

func (q pgQuerier) batch(ctx context.Context, list []statement) (err error) {
	if len(list) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, s := range list {
		b.Queue(q.d.sql(s.sql), s.args...)
	}
	results := q.conn.SendBatch(ctx, b)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	for _, s := range list {
		if s.row != nil {
			r, err := results.Query()
			if err != nil {
				return err
			}
			if err := drain(pgRows{r}, s.row); err != nil {
				return err
			}
			continue
		}
		tag, err := results.Exec()
		if err != nil {
			return err
		}
		if s.n != nil {
			*s.n = tag.RowsAffected()
		}
	}
	return nil
}

// pgRows gives pgx.Rows the shape of sql.Rows.
type pgRows struct{ pgx.Rows }

func (r pgRows) Close() error {
	r.Rows.Close()
	return r.Rows.Err()
}
