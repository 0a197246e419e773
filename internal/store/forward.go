package store

import (
	"context"
	"fmt"
	"time"
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

// ClaimForwards takes at most limit entries that are due. Until lease is over
// nobody else gets them; what is not settled by then is due again.
func (m *MerchantEnd) ClaimForwards(ctx context.Context, now Millis, lease time.Duration, limit int) ([]Forward, error) {
	var list []Forward
	err := m.s.db.write(ctx, func(ctx context.Context, t *tx) error {
		list = nil
		args := []any{int64(now) + lease.Milliseconds(), int64(now), limit}
		err := each(ctx, t, claimForwardsSQL, args, func(r rows) error {
			var f Forward
			err := r.Scan(&f.Feed, &f.Seq, &f.Attempts)
			list = append(list, f)
			return err
		})
		if err != nil {
			return err
		}
		statements := make([]statement, len(list))
		for i := range list {
			f := &list[i]
			statements[i] = statement{sql: readDepositSQL, args: []any{f.Seq}, row: func(r rows) (err error) {
				f.Deposit, err = scanDeposit(r)
				return err
			}}
			if f.Feed == FeedEvents {
				statements[i] = statement{sql: readEventSQL, args: []any{f.Seq}, row: func(r rows) (err error) {
					f.Event, err = scanEvent(r)
					return err
				}}
			}
		}
		return t.batch(ctx, statements)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// SettleForwards ends attempts. One whose lease was lost changes nothing,
// unless it is done: then nothing is left to be told.
func (m *MerchantEnd) SettleForwards(ctx context.Context, list []Forwarded) error {
	statements := make([]statement, len(list))
	for i, f := range list {
		if f.Done {
			statements[i] = statement{sql: forwardDoneSQL, args: []any{int64(f.Feed), f.Seq}}
			continue
		}
		if err := checkText("reason", f.Reason); err != nil {
			return err
		}
		statements[i] = statement{sql: forwardAgainSQL, args: []any{int64(f.Feed), f.Seq, int64(f.Due), f.Reason, f.Attempts}}
	}
	return m.s.db.write(ctx, func(ctx context.Context, t *tx) error { return t.batch(ctx, statements) })
}

// NextForward is when the next entry is due, Never where none waits.
func (m *MerchantEnd) NextForward(ctx context.Context) (Millis, error) {
	due := Never
	if _, err := one(ctx, m.s.db, nextForwardSQL, nil, &due); err != nil {
		return Never, fmt.Errorf("looking for what is to be forwarded: %w", err)
	}
	return due, nil
}
