package book

import (
	"context"
	"math"
	"slices"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const heldAfterSQL = `
SELECT d.seq, d.tracking_id, i.duplicate + d.suspect + (SELECT COUNT(*) FROM booked_before b WHERE b.tracking_id = d.tracking_id),
	COALESCE(i.transfer, ''), COALESCE(i.payment, ''), i.tx_index
FROM deposits d JOIN inbox i ON i.type = 1 AND i.id = d.tracking_id
WHERE d.state <> 'taken' AND d.state = 'held' AND d.seq > $1 AND d.seq <= $2 ORDER BY d.seq LIMIT $3`

// Said reports what the application has booked. Booked asks for a deposit by its trackingId. Transfer asks for a
// transfer, which may be booked under another trackingId.
type Said struct {
	Booked   func(trackingID string) bool
	Transfer func(transfer, payment string, txIndex int64) bool
}

// SettleHeld decides the held deposits. Those that the application had booked do not count. Those that are held only
// because of the restore count. It skips deposits that are held for another reason, those whose transfer was booked
// under another trackingId, and those that were taken after it began. In a book that was never restored it decides
// nothing.
func (b *Book) SettleHeld(ctx context.Context, said Said, now db.Millis) error {
	return settleHeld(ctx, b, said, now, func(list []client.DepositEntry) error {
		return b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error { return decideDeposits(ctx, t, list) })
	})
}

// settleHeld passes the decisions to decide, in batches.
func settleHeld(ctx context.Context, q db.Querier, said Said, now db.Millis,
	decide func([]client.DepositEntry) error) error {
	epochs, err := db.ReadEpochs(ctx, q)
	if err != nil || len(epochs) == 0 {
		return err
	}
	base := int64(math.MaxInt64)
	if first := slices.IndexFunc(epochs, db.Epoch.Open); first >= 0 { // the backup may have been made while one was open
		base = epochs[first].Base()
	}
	last, err := db.LastSeqs(ctx, q)
	if err != nil {
		return err
	}
	type held struct {
		seq      int64
		id       string
		doubts   int64 // other reasons why it is held
		transfer string
		payment  string
		index    int64
	}
	for after := int64(0); ; {
		var list []held
		err := db.Each(ctx, q, heldAfterSQL, []any{after, last[feedDeposits], decideBatch}, func(r db.Rows) error {
			var h held
			err := r.Scan(&h.seq, &h.id, &h.doubts, &h.transfer, &h.payment, &h.index)
			list = append(list, h)
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		var decisions []client.DepositEntry
		for _, h := range list {
			after = h.seq
			d := client.DepositEntry{Seq: h.seq, Decided: now, DecidedBy: ByReconcile}
			switch {
			case said.Booked(h.id):
				d.State, d.Reason = client.DepositRejected, reasonBooked
			case h.seq > base && h.doubts == 0 && !said.Transfer(h.transfer, h.payment, h.index):
				d.State = client.DepositCredited
			default:
				continue
			}
			decisions = append(decisions, d)
		}
		if len(decisions) == 0 {
			continue
		}
		if err := decide(decisions); err != nil {
			return err
		}
	}
}

// Reconcile ends the open epoch. Like SettleHeld, it also decides the deposits that were held since that ran. It
// reports whether an epoch was open. It locks the inbox's number to keep claims out, because nobody would decide a
// deposit that is held for an epoch that has ended.
func (b *Book) Reconcile(ctx context.Context, said Said, now db.Millis) (open bool, err error) {
	for range 3 { // each round leaves fewer for the transaction, in which claims wait
		if err := b.SettleHeld(ctx, said, now); err != nil {
			return false, err
		}
	}
	return journal.EndEpoch(ctx, b.DB, journal.BookReconciled, now, func(ctx context.Context, t *db.Tx) error {
		if _, err := db.LockFeed(ctx, t, inboxFeed); err != nil {
			return err
		}
		return settleHeld(ctx, t, said, now, func(list []client.DepositEntry) error { return decideDeposits(ctx, t, list) })
	})
}
