package book

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// NewPurger returns a purger of taken deposits. It purges a deposit once every named reader has acknowledged it and,
// if the gateway forwards, the application has received it. The deposit's entry in the inbox stays, so that
// repetitions are recognized and answered as before. A deposit that was ever held for a person stays.
func NewPurger(c db.PurgeConfig) (*db.Purger, error) {
	return db.NewPurger(c, db.Purging{
		Find:    findTaken,
		ReadSQL: `SELECT next, before, '', '', seq, upto, walked, purged FROM retention WHERE one = 1`,
		Move: func(s db.PurgeState) db.Statement {
			next, before, walked, purged := s.Args()
			return db.Statement{SQL: movePurgeSQL, Args: []any{next, before, s.Place.Seq, s.Upto, walked, purged}}
		},
		Ended: journal.Purges(journal.DepositsPurged),
	})
}

const movePurgeSQL = `UPDATE retention SET next = $1, before = $2, seq = $3, upto = $4, walked = $5, purged = $6 WHERE one = 1`

const (
	slowestReaderSQL = `SELECT name, deposits FROM cursors WHERE deposits > 0 ORDER BY deposits, name LIMIT 1`

	findDepositsSQL = `SELECT seq, taken FROM deposits WHERE seq > $1 AND seq <= $2 AND state || '' = 'taken' ORDER BY seq LIMIT CAST($3 AS BIGINT)`
)

// readUpTo returns the number of the last deposit that everybody has read, and a text that says who has not read the
// next one.
func readUpTo(ctx context.Context, q db.Querier) (last int64, who string, err error) {
	if last, err = db.FeedEnd(ctx, q, feedDeposits); err != nil {
		return 0, "", err
	}
	var seq int64
	var reader string
	switch found, err := db.One(ctx, q, slowestReaderSQL, nil, &reader, &seq); {
	case err != nil:
		return 0, "", err
	case found && seq < last:
		last, who = seq, fmt.Sprintf("the reader %q has acknowledged deposit %d and no further", reader, seq)
	}
	return last, who, nil
}

func findTaken(ctx context.Context, q db.Querier, s db.PurgeState, cutoff db.Millis,
	most int) (b db.PurgeBatch, err error) {
	last, who, err := readUpTo(ctx, q)
	if err != nil {
		return b, err
	}
	b.Place = s.Place
	var rows []int64
	n, young := 0, false
	err = db.Each(ctx, q, findDepositsSQL, []any{s.Place.Seq, last, most}, func(r db.Rows) error {
		var seq int64
		var taken db.Millis
		err := r.Scan(&seq, &taken)
		n++
		if young = young || taken >= cutoff; !young {
			rows = append(rows, seq)
			b.Place.Seq, b.Upto = seq, seq
		}
		return err
	})
	if b.Ended = young || n < most; b.Ended && !young && who != "" {
		var next int64
		var taken db.Millis
		old, err := db.One(ctx, q, findDepositsSQL, []any{last, int64(db.Never), 1}, &next, &taken)
		if err != nil {
			return b, err
		}
		if old && taken < cutoff {
			b.Held = who
		}
	}
	b.Rows, b.Purge = len(rows), func(ctx context.Context, t *db.Tx) (int64, error) { return purgeTaken(ctx, t, rows) }
	return b, err
}

// purgeDepositSQL skips deposits that the application has not received, and those with the transaction of a held
// deposit.
const purgeDepositSQL = `
DELETE FROM deposits WHERE seq = $1 AND state || '' = 'taken'
	AND NOT EXISTS (SELECT 1 FROM forwards f WHERE f.feed = 'deposits' AND f.seq = deposits.seq)
	AND NOT EXISTS (SELECT 1 FROM deposits h WHERE substr(h.tx_id, 1, 64) = substr(deposits.tx_id, 1, 64) AND h.state || '' = 'held')`

func purgeTaken(ctx context.Context, t *db.Tx, rows []int64) (total int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	// With this lock, forwarding either begins with the first deposit before the purge, or sees what was purged.
	if _, err := lockForwarding(ctx, t); err != nil {
		return 0, err
	}
	last, _, err := readUpTo(ctx, t)
	if err != nil {
		return 0, err
	}
	gone := make([]int64, len(rows))
	var list []db.Statement
	for i, seq := range rows {
		if seq <= last {
			list = append(list, db.Statement{SQL: purgeDepositSQL, Args: []any{seq}, N: &gone[i]})
		}
	}
	if err := t.Batch(ctx, list); err != nil {
		return 0, err
	}
	var notes []string
	for i, n := range gone {
		if n > 0 {
			notes = append(notes, aboutDeposit(rows[i]))
		}
		total += n
	}
	return total, db.DropVotes(ctx, t, notes)
}

// Old taken deposits are purged (purge.go). The feed of deposits then begins after the last purged one. The entries
// of purged deposits in the inbox stay for ever, so that repetitions are recognized.

const (
	purgedUpToSQL = `SELECT upto FROM retention WHERE one = 1`

	// Every deposit has an entry in the inbox. A deposit that is no longer in deposits was taken.
	eachPurgedSQL = `
SELECT i.seq, i.id FROM inbox i WHERE i.type = 1 AND i.seq > $1
	AND NOT EXISTS (SELECT 1 FROM deposits d WHERE substr(d.tracking_id, 1, 64) = substr(i.id, 1, 64) AND d.tracking_id = i.id)
ORDER BY i.seq LIMIT CAST($2 AS BIGINT)`
)

// PurgedUpTo returns the number of the last purged deposit. It returns 0 if none was purged.
func PurgedUpTo(ctx context.Context, q db.Querier) (seq int64, err error) {
	_, err = db.One(ctx, q, purgedUpToSQL, nil, &seq)
	return seq, err
}

// CheckKept returns ErrPurged if a page of the feed of deposits, read after number after, lacks purged deposits.
func (b *Book) CheckKept(ctx context.Context, after int64, page []client.DepositEntry) error {
	whole := len(page) > 0
	for i, d := range page {
		whole = whole && d.Seq == after+1+int64(i)
	}
	if whole {
		return nil
	}
	last, err := PurgedUpTo(ctx, b)
	if err == nil && after < last {
		err = fmt.Errorf("deposits up to number %d were %w: the feed begins after %d", last, db.ErrPurged, last)
	}
	return err
}

// notKept returns the error for a deposit that does not exist.
func notKept(ctx context.Context, q db.Querier, seq int64) error {
	last, err := PurgedUpTo(ctx, q)
	switch {
	case err != nil:
		return err
	case seq < 1 || seq > last:
		return db.ErrNotFound
	}
	return fmt.Errorf("deposits up to number %d were %w: of each, its entry in the inbox is kept", last, db.ErrPurged)
}

// EachPurged calls fn for the trackingId of every purged deposit. All of these deposits count.
func (b *Book) EachPurged(ctx context.Context, fn func(trackingID string) error) error {
	if last, err := PurgedUpTo(ctx, b); err != nil || last == 0 {
		return err
	}
	const most = 500
	for seq, n := int64(0), most; n == most; {
		n = 0
		err := db.Each(ctx, b, eachPurgedSQL, []any{seq, most}, func(r db.Rows) error {
			n++
			var id string
			if err := r.Scan(&seq, &id); err != nil {
				return err
			}
			return fn(id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
