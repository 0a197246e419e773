package book

import (
	"context"
	"slices"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
)

const (
	// reasonBooked is the reason of a deposit that does not count because the
	// application booked it before the restore.
	reasonBooked = "booked before the restore"
	// ByReconcile is who decides on deposits that were held after a restore.
	ByReconcile = "reconcile"
)

// Feeds are the feeds that readers follow by their numbers.
var Feeds = []string{db.FeedOfAlarms, FeedDeposits.String(), FeedEvents.String()}

// Restored begins an epoch after a restore: until Reconcile every deposit that is taken
// is held, and no order ends by a person, the policy or its time. least is the number
// of the last epoch that is known from elsewhere, or 0.
func (b *Book) Restored(ctx context.Context, least int64, now db.Millis) (db.Epoch, error) {
	return audit.BeginEpoch(ctx, b.DB, audit.Restore{Kind: audit.BookRestored, Alarm: client.AlarmRestored, Feeds: Feeds, Least: least, At: now})
}

const (
	openEpochSQL = `SELECT 1 WHERE ` + db.OpenEpochSQL

	readBookedSQL = `SELECT i.tracking_id FROM {list}$1{as w} CROSS JOIN {inner}booked_before i WHERE i.tracking_id = w.value{alone}`
)

// readRestored reads what claims of deposits need to know of a restore.
func (in *inboxTx) readRestored(ids any) []db.Statement {
	return []db.Statement{
		{SQL: openEpochSQL, Row: func(db.Rows) error {
			in.restored = true
			return nil
		}},
		{SQL: readBookedSQL, Args: []any{ids}, Row: func(r db.Rows) error {
			var id string
			err := r.Scan(&id)
			in.booked[id] = true
			return err
		}},
	}
}

// checkReconciled fails if the book was restored and is not reconciled. An order may
// then have been confirmed and executed, so who is told that it has ended would give
// its funds back too early.
func checkReconciled(ctx context.Context, t *db.Tx) error {
	e, err := db.LastEpoch(ctx, t)
	if err == nil && e.Open() {
		err = &db.ConflictError{Reason: "the gateway was restored from a backup and may have confirmed this before: no order ends until it is reconciled"}
	}
	return err
}

const bookBeforeSQL = `
INSERT INTO booked_before (tracking_id) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE type = 1 AND id = $1)
ON CONFLICT (tracking_id) DO NOTHING`

// BookedBefore keeps the trackingIds of deposits that the application has booked and
// that the book does not know. If the service tells of one again, it is held.
func (b *Book) BookedBefore(ctx context.Context, ids []string) error {
	var statements []db.Statement
	for _, id := range ids {
		if err := db.CheckIdentifier("trackingId", id); err != nil {
			return err
		}
		statements = append(statements, db.Statement{SQL: bookBeforeSQL, Args: []any{id}})
	}
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error { return t.Batch(ctx, statements) })
}

const heldAfterSQL = `
SELECT d.seq, d.tracking_id, i.duplicate FROM deposits d JOIN inbox i ON i.type = 1 AND i.id = d.tracking_id
WHERE d.state <> 'taken' AND d.state = 'held' AND d.suspect = 0 AND d.seq > $1 AND d.seq <= $2 ORDER BY d.seq LIMIT 500`

// SettleHeld decides on the deposits that were held because the book was restored:
// those that the application had booked do not count, and the others do. It leaves
// those that are held for another reason, and what is taken after it begins.
func (b *Book) SettleHeld(ctx context.Context, booked func(trackingID string) bool, now db.Millis) error {
	return settleHeld(ctx, b, booked, func(seq int64, to DepositState, reason string) error {
		_, err := b.DecideDeposit(ctx, seq, to, ByReconcile, reason, now)
		return err
	})
}

func settleHeld(ctx context.Context, q db.Querier, booked func(trackingID string) bool, decide func(seq int64, to DepositState, reason string) error) error {
	epochs, err := db.ReadEpochs(ctx, q)
	first := slices.IndexFunc(epochs, db.Epoch.Open) // the backup may have been made while one was open
	if err != nil || first < 0 {
		return err
	}
	last, err := db.LastSeqs(ctx, q)
	if err != nil {
		return err
	}
	type held struct {
		seq       int64
		id        string
		duplicate int64
	}
	for after := epochs[first].Base(); ; {
		var list []held
		err := db.Each(ctx, q, heldAfterSQL, []any{after, last[FeedDeposits.String()]}, func(r db.Rows) error {
			var h held
			err := r.Scan(&h.seq, &h.id, &h.duplicate)
			list = append(list, h)
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		for _, h := range list {
			after = h.seq
			switch {
			case booked(h.id):
				err = decide(h.seq, DepositRejected, reasonBooked)
			case h.duplicate == 0:
				err = decide(h.seq, DepositCredited, "")
			}
			if err != nil {
				return err
			}
		}
	}
}

// Reconcile ends the open epoch, and decides as SettleHeld on what was held since that ran.
// It reports whether an epoch was open. The lock of the inbox's number keeps claims out, so
// that none is held for an epoch that has ended: nobody would decide on it.
func (b *Book) Reconcile(ctx context.Context, booked func(trackingID string) bool, now db.Millis) (open bool, err error) {
	for range 3 { // each time fewer are left for the transaction, in which claims wait
		if err := b.SettleHeld(ctx, booked, now); err != nil {
			return false, err
		}
	}
	return audit.EndEpoch(ctx, b.DB, audit.BookReconciled, now, func(ctx context.Context, t *db.Tx) error {
		if _, err := db.LockFeed(ctx, t, inboxFeed); err != nil {
			return err
		}
		return settleHeld(ctx, t, booked, func(seq int64, to DepositState, reason string) error {
			_, err := decideDeposit(ctx, t, seq, to, ByReconcile, reason, now)
			return err
		})
	})
}
