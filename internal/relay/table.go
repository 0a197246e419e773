package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Counts are the numbers of the table.
type Counts struct {
	Waiting int64   `json:"waiting"`       // rows to be carried
	Oldest  float64 `json:"oldestSeconds"` // since the oldest of them was inserted; 0: there is none
	Refused int64   `json:"refused"`       // rows that were refused and are kept
}

const countSQL = `
SELECT (SELECT count(*) FROM countersign_outbox WHERE refused IS NULL),
	COALESCE((SELECT extract(epoch FROM clock_timestamp() - min(created)) FROM countersign_outbox WHERE refused IS NULL), 0)::float8,
	(SELECT count(*) FROM countersign_outbox WHERE refused IS NOT NULL)`

func count(ctx context.Context, pool *pgxpool.Pool) (n Counts, err error) {
	err = pool.QueryRow(ctx, countSQL).Scan(&n.Waiting, &n.Oldest, &n.Refused)
	n.Oldest = max(n.Oldest, 0)
	return n, err
}

// Refused is a row that the service refused.
type Refused struct {
	ID       int64           `json:"id"`
	Kind     string          `json:"kind"`
	Merchant string          `json:"merchant"` // empty: the body names none that there can be
	Created  time.Time       `json:"created"`
	Refused  time.Time       `json:"refused"`
	Problem  json.RawMessage `json:"problem"` // what the service said
	Body     string          `json:"body"`    // at most its first 4,096 characters
}

const refusedSQL = `
SELECT id, kind, merchant, created, refused, problem::text, left(body::text, 4096)
FROM countersign_outbox WHERE refused IS NOT NULL ORDER BY id LIMIT $1`

// Table is the table of a core's database, for a person. Close ends it.
type Table struct{ pool *pgxpool.Pool }

// OpenTable makes a Table at the URL of a core's database. It connects when it is used.
func OpenTable(from string) (*Table, error) {
	pool, _, err := connect(from, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return nil, err
	}
	return &Table{pool}, nil
}

// Close ends its connections.
func (t *Table) Close() { t.pool.Close() }

// Counts gives the numbers of the table.
func (t *Table) Counts(ctx context.Context) (Counts, error) {
	n, err := count(ctx, t.pool)
	return n, explain(err)
}

// Refused gives the first refused rows, at most limit.
func (t *Table) Refused(ctx context.Context, limit int) ([]Refused, error) {
	rows, err := t.pool.Query(ctx, refusedSQL, limit)
	if err != nil {
		return nil, explain(err)
	}
	list, err := pgx.CollectRows(rows, func(c pgx.CollectableRow) (r Refused, err error) {
		var problem string
		err = c.Scan(&r.ID, &r.Kind, &r.Merchant, &r.Created, &r.Refused, &problem, &r.Body)
		r.Problem = json.RawMessage(problem)
		return r, err
	})
	return list, explain(err)
}

const retrySQL = `
UPDATE countersign_outbox SET refused = NULL, problem = NULL WHERE refused IS NOT NULL AND ($2 OR id = ANY($1::bigint[]))`

// Retry lets refused rows wait again, with ids or all of them, and gives how many. They
// are carried after rows of their merchant that went meanwhile.
func (t *Table) Retry(ctx context.Context, all bool, ids ...int64) (n int64, err error) {
	err = pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		if ids == nil {
			ids = []int64{}
		}
		tag, err := tx.Exec(ctx, retrySQL, ids, all)
		if err != nil {
			return err
		}
		n = tag.RowsAffected()
		_, err = tx.Exec(ctx, `NOTIFY countersign_outbox`)
		return err
	})
	return n, explain(err)
}

func explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the core's database: %w", err)
}
