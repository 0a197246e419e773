package book

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"countersign/client"
	"countersign/internal/db"
)

// Entries of a feed are handed over to forwarding in their order. The table forwarding has the number of the last one
// of each feed. From then on an entry has a row in forwards, until the application has taken it. The first claim
// inserts that row. So recording an entry costs nothing extra, and no entry is missing if no gateway was forwarding
// at the time.
const (
	// handOverSQL locks the handing over, so that no other node takes the next entries.
	handOverSQL = `SELECT 1 FROM forwarding ORDER BY feed{lock}`

	handedOverSQL = `UPDATE forwarding SET seq = $2 WHERE feed = $1`

	dueForwardsSQL = `SELECT feed, seq, due FROM forwards WHERE due <= $1 ORDER BY due, feed, seq LIMIT CAST($2 AS BIGINT){skip}`

	claimForwardSQL = `
UPDATE forwards SET due = $3, attempts = attempts + 1, sending = 1 WHERE feed = $1 AND seq = $2 RETURNING attempts`

	insertForwardSQL = `INSERT INTO forwards (feed, seq, due, attempts, sending, created) VALUES ($1, $2, $3, 1, 1, $4)`

	forwardDoneSQL = `DELETE FROM forwards WHERE feed = $1 AND seq = $2`

	forwardAgainSQL = `
UPDATE forwards SET due = $3, reason = $4, sending = 0 WHERE feed = $1 AND seq = $2 AND attempts = $5`

	nextForwardSQL = `SELECT due FROM forwards ORDER BY due LIMIT 1`

	// What was not handed over yet, in the order of the numbers.
	freshDeposits    = `FROM deposits WHERE seq > (SELECT seq FROM forwarding WHERE feed = 'deposits' AND begun > 0)`
	freshDepositsSQL = `SELECT 'deposits', seq, taken ` + freshDeposits + ` ORDER BY seq LIMIT CAST($1 AS BIGINT)`
	freshEvents      = `FROM events WHERE seq > (SELECT seq FROM forwarding WHERE feed = 'events' AND begun > 0)`
	freshEventsSQL   = `SELECT 'events', seq, at ` + freshEvents + ` ORDER BY seq LIMIT CAST($1 AS BIGINT)`

	// anyForwardSQL reports whether a claim would find anything.
	anyForwardSQL = `
SELECT 1 WHERE EXISTS (SELECT 1 FROM forwards WHERE due <= $1) OR EXISTS (SELECT 1 ` + freshDeposits +
		`) OR EXISTS (SELECT 1 ` + freshEvents + `)`
)

var insertForwards = db.NewInsert(insertForwardSQL, 8)

// Forward is one entry of a feed. Until its lease ends, only this node may send it to the merchant's application.
type Forward struct {
	Feed     client.FeedName
	Seq      int64
	Attempts int // attempts that were started, including this one

	at    db.Millis // when it began to wait
	fresh bool      // it has no row yet
}

// ClaimForwards leases at most limit due entries. Those that have waited longest come first. No other claim gets them
// until the lease ends. Entries that are not settled by then are due again.
func (b *Book) ClaimForwards(ctx context.Context, now db.Millis, lease time.Duration,
	limit int) (list []Forward, err error) {
	// Most claims would find nothing. This query shows that without a transaction and without a lock.
	var is int
	if any, err := db.One(ctx, b, anyForwardSQL, []any{int64(now)}, &is); err != nil || !any {
		return nil, err
	}
	err = b.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		if list, err = findForwards(ctx, t, now, limit); err == nil {
			err = claimForwards(ctx, t, list, now+db.Millis(lease.Milliseconds()))
		}
		return err
	})
	return list, err
}

// claimForwards leases what findForwards found, until due.
func claimForwards(ctx context.Context, t *db.Tx, list []Forward, due db.Millis) error {
	var statements []db.Statement
	var rows []any
	last := map[client.FeedName]int64{}
	for i := range list {
		f := &list[i]
		if f.fresh {
			rows = append(rows, string(f.Feed), f.Seq, int64(due), int64(f.at))
			last[f.Feed] = f.Seq
			continue
		}
		statements = append(statements, db.Statement{SQL: claimForwardSQL, Args: []any{string(f.Feed), f.Seq, int64(due)},
			Row: func(r db.Rows) error { return r.Scan(&f.Attempts) }})
	}
	statements = append(statements, insertForwards.Statements(rows, nil)...)
	for feed, seq := range last {
		statements = append(statements, db.Statement{SQL: handedOverSQL, Args: []any{string(feed), seq}})
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	return t.Count(ctx, countForwards, int64(len(rows)/4))
}

// lockForwarding prevents others from handing over entries and from beginning to forward.
func lockForwarding(ctx context.Context, t *db.Tx) error {
	return db.Each(ctx, t, handOverSQL, nil, func(db.Rows) error { return nil })
}

// findForwards returns the entries to claim. It locks their rows and the handing over.
func findForwards(ctx context.Context, t *db.Tx, now db.Millis, limit int) (list []Forward, err error) {
	latest := map[client.FeedName]db.Millis{}
	scan := func(fresh bool) func(db.Rows) error {
		return func(r db.Rows) error {
			f := Forward{fresh: fresh}
			err := r.Scan(&f.Feed, &f.Seq, &f.at)
			if fresh {
				// The clocks of nodes differ, but no entry may be handed over before its predecessor.
				f.at = max(f.at, latest[f.Feed])
				latest[f.Feed], f.Attempts = f.at, 1
			}
			list = append(list, f)
			return err
		}
	}
	err = t.Batch(ctx, []db.Statement{
		{SQL: handOverSQL, Row: func(db.Rows) error { return nil }},
		{SQL: dueForwardsSQL, Args: []any{int64(now), limit}, Row: scan(false)},
		{SQL: freshDepositsSQL, Args: []any{limit}, Row: scan(true)},
		{SQL: freshEventsSQL, Args: []any{limit}, Row: scan(true)},
	})
	slices.SortStableFunc(list, func(a, b Forward) int { return cmp.Compare(a.at, b.at) })
	return list[:min(limit, len(list))], err
}

// ForwardDone records that the application has the entry, even if the attempt has lost its lease.
func (b *Book) ForwardDone(ctx context.Context, f Forward) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, forwardDoneSQL, string(f.Feed), f.Seq)
		if err != nil {
			return err
		}
		return t.Count(ctx, countForwards, -n)
	})
}

// ForwardFailed ends a failed attempt. The next attempt is at due. It changes nothing if the attempt has lost its
// lease. reason is a short text.
func (b *Book) ForwardFailed(ctx context.Context, f Forward, reason string, due db.Millis) error {
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := t.Exec(ctx, forwardAgainSQL, string(f.Feed), f.Seq, int64(due), db.Clean(reason), f.Attempts)
		return err
	})
}

// NextForward returns when the next entry that failed before is due. It returns Never if there is none.
func (b *Book) NextForward(ctx context.Context) (db.Millis, error) {
	due := db.Never
	if _, err := db.One(ctx, b, nextForwardSQL, nil, &due); err != nil {
		return db.Never, fmt.Errorf("finding the next entry to forward: %w", err)
	}
	return due, nil
}
