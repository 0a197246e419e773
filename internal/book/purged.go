package book

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
)

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
