package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"countersign/client"
	"countersign/internal/db"
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
	Body     string          `json:"body"`    // at most its first 4,096 characters, without permits
}

const refusedSQL = `
SELECT id, kind, merchant, created, refused, problem::text, left(body::text, 4096)
FROM countersign_outbox WHERE refused IS NOT NULL ORDER BY id LIMIT $1`

// permitText is a permit, which no person needs to see.
var permitText = regexp.MustCompile(`cpt_[A-Za-z0-9_-]+`)

// Table is the table of a core's database, for a person. Close ends it.
type Table struct{ pool *pgxpool.Pool }

// OpenTable makes a Table at the URL of a core's database. It connects when it is used.
func OpenTable(from string) (*Table, error) {
	pool, _, err := connect(from, idleTime, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &Table{pool}, nil
}

// Close ends its connections.
func (t *Table) Close() { t.pool.Close() }

// Counts returns the numbers of the table.
func (t *Table) Counts(ctx context.Context) (Counts, error) {
	n, err := count(ctx, t.pool)
	return n, explain(err)
}

// Refused returns the first refused rows, at most limit.
func (t *Table) Refused(ctx context.Context, limit int) ([]Refused, error) {
	rows, err := t.pool.Query(ctx, refusedSQL, limit)
	if err != nil {
		return nil, explain(err)
	}
	list, err := pgx.CollectRows(rows, func(c pgx.CollectableRow) (r Refused, err error) {
		var problem string
		err = c.Scan(&r.ID, &r.Kind, &r.Merchant, &r.Created, &r.Refused, &problem, &r.Body)
		r.Problem, r.Body = json.RawMessage(problem), permitText.ReplaceAllString(r.Body, "cpt_…")
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

// Cursor returns the number of the last decision that was written.
func (t *Table) Cursor(ctx context.Context) (n int64, err error) {
	err = t.pool.QueryRow(ctx, cursorSQL).Scan(&n)
	return n, explain(err)
}

const setCursorSQL = `UPDATE countersign_relay SET decisions = $2 WHERE decisions = $1`

// SetCursor moves the cursor of decisions. It fails if the cursor is not at from any more.
func (t *Table) SetCursor(ctx context.Context, from, to int64) error {
	tag, err := t.pool.Exec(ctx, setCursorSQL, from, to)
	if err == nil && tag.RowsAffected() == 0 {
		return fmt.Errorf("the cursor of decisions was moved meanwhile from %d: look again", from)
	}
	return explain(err)
}

// NextEpoch says where the cursor of decisions goes on after a restore of the service: the
// place before the first decision of the epoch after the cursor's. It fails while the
// service is not reconciled, and while decisions of before the restore are not written
// yet: whoever moved the cursor then would lose them.
//
// If the cursor is of an epoch that the service does not know, its backup was made before
// that epoch began, or apart from it. What was written may then have other ids than the
// service has now, so the feed is read again from its beginning, which changes nothing else.
func NextEpoch(ctx context.Context, api *client.Service, cursor int64) (int64, error) {
	e, err := api.Epoch(ctx)
	switch {
	case err != nil:
		return 0, fmt.Errorf("asking for the service's epoch: %w", err)
	case e.Open:
		return 0, fmt.Errorf("the service was restored and is not reconciled: countersign reconcile comes first")
	}
	next, known := int64(0), append(e.Earlier, e.Epoch)
	for _, number := range known {
		if base := (db.Epoch{Number: number}).Base(); base > cursor && (next == 0 || base < next) {
			next = base
		}
	}
	if next == 0 {
		return 0, fmt.Errorf("the service has no epoch behind %d, where the cursor is", cursor)
	}
	part, err := api.Decisions(ctx, client.FeedOptions{After: cursor, Limit: 1})
	switch {
	case errors.Is(err, client.ErrConflict): // the restore lost what the cursor stands at
		if of := cursor / epochGap; of > 0 && !slices.Contains(known, of) {
			return 0, nil
		}
	case err != nil:
		return 0, fmt.Errorf("asking for decisions: %w", err)
	case len(part.Decisions) > 0 && part.Decisions[0].Seq <= next:
		return 0, fmt.Errorf("entry %d is of before the restore and not written yet: let a relay run with --decisions first; its log says what stops it", part.Decisions[0].Seq)
	}
	return next, nil
}

func explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the core's database: %w", err)
}
