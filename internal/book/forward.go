package book

import (
	"context"
	"fmt"
	"time"

	"countersign/internal/db"
)

const (
	claimForwardsSQL = `
UPDATE forwards SET due = $1, attempts = attempts + 1
WHERE (feed, seq) IN (SELECT feed, seq FROM forwards WHERE due <= $2 ORDER BY due, feed, seq LIMIT $3{skip})
RETURNING feed, seq, attempts`

	forwardDoneSQL = `DELETE FROM forwards WHERE feed = $1 AND seq = $2`

	forwardAgainSQL = `UPDATE forwards SET due = $3, reason = $4 WHERE feed = $1 AND seq = $2 AND attempts = $5`

	nextForwardSQL = `SELECT due FROM forwards ORDER BY due LIMIT 1`

	readEventSQL = `SELECT ` + eventColumns + ` FROM events WHERE seq = $1`
)

// ClaimForwards takes at most limit due entries. No other claim gets them until
// lease ends; entries that are not settled by then are due again.
func (b *Book) ClaimForwards(ctx context.Context, now db.Millis, lease time.Duration, limit int) ([]Forward, error) {
	var list []Forward
	err := b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		list = nil
		args := []any{int64(now) + lease.Milliseconds(), int64(now), limit}
		err := db.Each(ctx, t, claimForwardsSQL, args, func(r db.Rows) error {
			var f Forward
			err := r.Scan(&f.Feed, &f.Seq, &f.Attempts)
			list = append(list, f)
			return err
		})
		if err != nil {
			return err
		}
		statements := make([]db.Statement, len(list))
		for i := range list {
			f := &list[i]
			statements[i] = db.Statement{SQL: readDepositSQL, Args: []any{f.Seq}, Row: func(r db.Rows) (err error) {
				f.Deposit, err = scanDeposit(r)
				return err
			}}
			if f.Feed == FeedEvents {
				statements[i] = db.Statement{SQL: readEventSQL, Args: []any{f.Seq}, Row: func(r db.Rows) (err error) {
					f.Event, err = scanEvent(r)
					return err
				}}
			}
		}
		return t.Batch(ctx, statements)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// SettleForwards ends attempts. An attempt that has lost its lease changes nothing
// unless it is Done: then the application has the entry.
func (b *Book) SettleForwards(ctx context.Context, list []Forwarded) error {
	statements := make([]db.Statement, len(list))
	done := make([]int64, len(list)) // of each: 1 if it was deleted
	for i, f := range list {
		if f.Done {
			statements[i] = db.Statement{SQL: forwardDoneSQL, Args: []any{int64(f.Feed), f.Seq}, N: &done[i]}
			continue
		}
		if err := db.CheckText("reason", f.Reason); err != nil {
			return err
		}
		statements[i] = db.Statement{SQL: forwardAgainSQL, Args: []any{int64(f.Feed), f.Seq, int64(f.Due), f.Reason, f.Attempts}}
	}
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		clear(done)
		if err := t.Batch(ctx, statements); err != nil {
			return err
		}
		deleted := int64(0)
		for _, n := range done {
			deleted += n
		}
		return t.Count(ctx, countForwards, -deleted)
	})
}

// NextForward is when the next entry is due, Never if none waits.
func (b *Book) NextForward(ctx context.Context) (db.Millis, error) {
	due := db.Never
	if _, err := db.One(ctx, b, nextForwardSQL, nil, &due); err != nil {
		return db.Never, fmt.Errorf("finding the next entry to forward: %w", err)
	}
	return due, nil
}
