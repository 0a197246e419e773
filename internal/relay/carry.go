package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/db"
)

const (
	// lockSQL lets one relay at a time work on the table, until its transaction ends. That ends at once if the relay
	// dies, and after idleTime if it stands still.
	lockSQL = `SELECT pg_try_advisory_xact_lock(7161924, 'countersign_outbox'::regclass::oid::int4)`

	// merchantsSQL returns merchants with rows that wait, after a place in their order. It looks up only the first row
	// of each merchant, however many wait.
	merchantsSQL = `
WITH RECURSIVE m (merchant) AS (
	(SELECT merchant FROM countersign_outbox WHERE refused IS NULL AND (merchant, id) > ($2::text, $3::bigint) ORDER BY merchant, id LIMIT 1)
	UNION ALL
	SELECT (SELECT o.merchant FROM countersign_outbox o WHERE o.refused IS NULL AND o.merchant > m.merchant ORDER BY o.merchant LIMIT 1)
	FROM m WHERE m.merchant IS NOT NULL
)
SELECT merchant FROM m WHERE merchant IS NOT NULL AND NOT merchant = ANY($1::text[]) LIMIT $4`

	// readSQL returns the first rows of some merchants, without those of withdrawals that wait for another try. It must
	// be a statement after lockSQL, so that it does not see what another relay deleted before it gave up the lock.
	readSQL = `
SELECT o.id, o.version, o.kind, o.merchant, CASE WHEN o.length <= $3 THEN o.text END, o.length, o.age
FROM unnest($1::text[]) AS m (merchant) CROSS JOIN LATERAL (
	SELECT id, xmin::text AS version, kind, merchant, body::text AS text, octet_length(body::text) AS length,
		extract(epoch FROM clock_timestamp() - created)::float8 AS age
	FROM countersign_outbox WHERE refused IS NULL AND merchant = m.merchant AND NOT id = ANY($4::bigint[]) ORDER BY id LIMIT $2
) o ORDER BY o.id`

	// What the core wrote meanwhile is another version of the row, which has not been sent: it waits for the next turn.
	deleteSQL = `
DELETE FROM countersign_outbox o USING unnest($1::bigint[], $2::text[]) AS n (id, version) WHERE o.id = n.id AND o.xmin::text = n.version`

	refuseSQL = `
UPDATE countersign_outbox o SET refused = clock_timestamp(), problem = n.problem::json
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS n (id, version, problem)
WHERE o.id = n.id AND o.xmin::text = n.version AND o.refused IS NULL`

	// A row that would stay the same is not written: each write makes another version of it.
	waitSQL = `
UPDATE countersign_outbox o SET problem = n.problem::json
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS n (id, version, problem)
WHERE o.id = n.id AND o.xmin::text = n.version AND o.refused IS NULL AND o.problem::text IS DISTINCT FROM n.problem`
)

// carry takes turns until ctx ends.
func (r *Relay) carry(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		done, err := r.turn(ctx)
		var wait time.Duration
		var down *downError
		switch {
		case errors.As(err, &down):
			r.state.set(partCore, nil)
			r.state.set(partService, down.err)
			wait = min(down.wait, longestHold)
		case err != nil && ctx.Err() == nil:
			r.state.set(partCore, err)
		default:
			failures = 0
			r.state.set(partCore, nil)
			r.state.set(partService, nil)
			if done == 0 { // else more may have come meanwhile
				r.rest(ctx, began)
			}
			continue
		}
		failures++
		db.Sleep(ctx, max(pauseAfter(failures, r.c.lastPause), wait))
	}
}

// rest waits for a notification, the poll, or the end of a merchant's hold.
func (r *Relay) rest(ctx context.Context, began time.Time) {
	wait := r.c.poll
	if _, first := r.held.now(began); !first.IsZero() {
		wait = min(wait, max(time.Until(first), 0))
	}
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-time.After(wait):
	}
}

// turn carries what waits, at most a batch, and returns of how many rows it has learned something. One transaction of
// the core's database holds the lock and, at its end, deletes what was acknowledged: a relay that dies before leaves
// every row. That commit need not be durable: rows that a crash of the database brings back are sent again, which
// changes nothing. With permits it is durable, since the core acts on them.
//
// Once ctx has ended no request begins; what was sent is still settled.
func (r *Relay) turn(ctx context.Context) (done int, err error) {
	work := context.WithoutCancel(ctx)
	tx, err := r.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		rollback, cancel := context.WithTimeout(work, sqlTimeout)
		defer cancel()
		_ = tx.Rollback(rollback) // after a commit it does nothing
		held, _ := r.held.now(time.Now())
		r.metrics.noteHeld(held)
	}()
	at := time.Now()
	rows, err := r.claim(ctx, tx, at)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	t := newTurn(r, rows, at)
	awake := r.keepAwake(work, tx)
	sendErr := t.send(ctx, time.Now().Add(turnTime))
	awake()
	parked := t.hold()
	if len(t.taken)+len(t.refused)+len(t.waits) == 0 {
		return parked, sendErr
	}
	if err := r.settle(work, tx, t); err != nil {
		return 0, err
	}
	t.account()
	return len(t.taken) + len(t.refused) + parked, sendErr
}

// keepAwake keeps the database from ending tx as idle while requests are under way. Its result must be called before tx
// is used.
func (r *Relay) keepAwake(ctx context.Context, tx pgx.Tx) (end func()) {
	until, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for db.Sleep(until, r.c.idle/4) {
			ping, cancel := context.WithTimeout(ctx, r.c.idle) // not until: to break it off would end tx
			_, err := tx.Exec(ping, `SELECT 1`)
			cancel()
			if err != nil {
				return // settling fails too, and the rows are sent again
			}
		}
	}()
	return func() { stop(); <-ended }
}

func (r *Relay) begin(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	tx, err := r.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	return tx, nil
}

// claim locks the table and returns the first rows of some merchants, in the order of their ids, without what is held
// at the time at. It returns none while another relay works.
func (r *Relay) claim(ctx context.Context, tx pgx.Tx, at time.Time) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	works := false
	if err := tx.QueryRow(ctx, lockSQL).Scan(&works); err != nil {
		return nil, fmt.Errorf("locking the table: %w", err)
	}
	if !works {
		r.metrics.active.Set(0)
		return nil, nil
	}
	r.metrics.active.Set(1)
	merchants, err := r.merchants(ctx, tx, at)
	if err != nil || len(merchants) == 0 {
		return nil, err
	}
	found, err := tx.Query(ctx, readSQL, merchants, max(r.c.batch/len(merchants), 1), maxBody, r.held.rows(at))
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	rows, err := pgx.CollectRows(found, func(c pgx.CollectableRow) (row Row, err error) {
		var age float64
		err = c.Scan(&row.ID, &row.Version, &row.Kind, &row.Merchant, &row.Body, &row.Length, &age)
		row.Age = time.Duration(age * float64(time.Second))
		return row, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	return rows, nil
}

// maxMerchants is the most merchants of which one turn has rows, so that each has several.
const maxMerchants = 200

// merchants returns the merchants after those of the last turn, and starts again from the first if there are no more:
// with many merchants each has its turn. Those held at the time at are left out.
func (r *Relay) merchants(ctx context.Context, tx pgx.Tx, at time.Time) ([]string, error) {
	held, _ := r.held.now(at)
	for {
		behind := int64(math.MaxInt64)
		if r.place == nil {
			r.place, behind = new(string), -1 // before the empty merchant too
		}
		limit := min(maxMerchants, r.c.batch)
		found, err := tx.Query(ctx, merchantsSQL, held, *r.place, behind, limit)
		if err != nil {
			return nil, fmt.Errorf("reading merchants: %w", err)
		}
		merchants, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("reading merchants: %w", err)
		}
		if len(merchants) == limit {
			r.place = &merchants[limit-1]
			return merchants, nil
		}
		r.place = nil
		if len(merchants) > 0 || behind == -1 {
			return merchants, nil
		}
	}
}

// settle writes permits, deletes rows that were acknowledged, and keeps those that were refused or wait, with the
// service's answer. It changes a row only in the version that was read.
func (r *Relay) settle(ctx context.Context, tx pgx.Tx, t *turn) error {
	ctx, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	b := &pgx.Batch{}
	if len(t.permits) == 0 {
		b.Queue(`SET LOCAL synchronous_commit = off`)
	}
	for _, p := range t.permits {
		w := p.issued.Withdrawal
		b.Queue(permitSQL, w.Merchant, w.CallBackID, w.ID, p.claim, p.issued.Permit.Reveal(), p.body, p.issued.Note, p.answer)
	}
	if len(t.permits) > 0 {
		b.Queue(`NOTIFY countersign_permits`)
	}
	if len(t.taken) > 0 {
		ids, versions := make([]int64, len(t.taken)), make([]string, len(t.taken))
		for i, row := range t.taken {
			ids[i], versions[i] = row.ID, row.Version
		}
		b.Queue(deleteSQL, ids, versions)
	}
	for sql, list := range map[string][]refusal{refuseSQL: t.refused, waitSQL: t.waits} {
		if len(list) == 0 {
			continue
		}
		ids, versions, problems := make([]int64, len(list)), make([]string, len(list)), make([]string, len(list))
		for i, f := range list {
			text, err := json.Marshal(f.problem)
			if err != nil {
				return err
			}
			ids[i], versions[i], problems[i] = f.row.ID, f.row.Version, string(text)
		}
		b.Queue(sql, ids, versions, problems)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("settling rows: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("settling rows: %w", err)
	}
	return nil
}
