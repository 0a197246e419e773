package book

import (
	"context"
	"math"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/merchant"
)

const (
	// reasonBooked is the reason of a deposit that does not count, because the application booked it before the
	// restore.
	reasonBooked = "booked before the restore"
	// ByReconcile is the name under which reconcile decides.
	ByReconcile = "reconcile"
)

// Feeds are the feeds that readers follow by their numbers.
var Feeds = []string{db.FeedOfAlarms, feedDeposits, feedEvents}

const restoredOrdersSQL = `UPDATE orders SET restored = 1 WHERE state IN ('open', 'held', 'approved', 'confirmed')`

// Restored begins an epoch after a restore. Until Reconcile, every deposit that is taken is held, and no order is
// confirmed or ends. Orders that had not ended stay as they are until AdoptOrder, a callback or ResumeOrder says what
// became of them. least is the highest epoch number that is known from elsewhere, or 0.
func (b *Book) Restored(ctx context.Context, least int64, now db.Millis) (db.Epoch, error) {
	return journal.BeginEpoch(ctx, b.DB, journal.Restore{Kind: journal.BookRestored, Feeds: Feeds, Least: least, At: now,
		MarkSQL: restoredOrdersSQL})
}

const (
	readBookedSQL = `SELECT i.tracking_id, i.sum FROM {list}$1{as w} CROSS JOIN {inner}booked_before i WHERE i.tracking_id = w.value{alone}`

	readBookedTransfersSQL = `
SELECT i.transfer, i.tracking_id, i.tx_index FROM {list}$1{as w} CROSS JOIN {inner}booked_before i WHERE i.transfer <> '' AND i.transfer = w.value{alone}`

	readBookedPaymentsSQL = `
SELECT i.payment, i.tracking_id, -1 FROM {list}$1{as w} CROSS JOIN {inner}booked_before i WHERE i.payment <> '' AND i.payment = w.value{alone}`
)

// Booked is a deposit that the application has booked.
type Booked struct {
	TrackingID string
	Sum        string // symbol and amount; empty: the application does not say
	Transfer   string // see KeysOf; empty: the application does not say
	Payment    string // see KeysOf; empty: the application does not say
	TxIndex    int64  // below 0: the application does not say
}

// SumOf returns the text that Booked.Sum holds and same compares. It returns "" if the amount is not set.
func SumOf(symbol string, amount countersign.Amount) string {
	if !amount.IsSet() {
		return ""
	}
	return symbol + " " + amount.Canonical()
}

// KeysOf returns the keys that identify the transfer of a deposit in Booked, without its index, and its payment.
func KeysOf(d countersign.Deposit) (transfer, payment string) {
	if d.TxID == "" {
		return "", ""
	}
	e := merchant.NewEntry(&d)
	if transfer = keyOf(e.Transfer); d.Amount.IsSet() {
		payment = keyOf(e.Payment)
	}
	return transfer, payment
}

// bookedBefore is what claims need to know of deposits booked before a restore.
type bookedBefore struct {
	sums      map[string]string   // by trackingId
	transfers map[string][]Booked // by transfer and by payment
}

// same reports whether d was booked. It then does not count.
func (b bookedBefore) same(d *countersign.Deposit) bool {
	sum, is := b.sums[d.TrackingID]
	return is && (sum == "" || sum == SumOf(d.Symbol, d.Amount))
}

// maybe reports whether the deposit of e may have been booked.
func (b bookedBefore) maybe(e *merchant.Entry) bool {
	_, is := b.sums[e.ID]
	others := slices.Concat(b.transfers[keyOf(e.Transfer)], b.transfers[keyOf(e.Payment)])
	return is || slices.ContainsFunc(others, func(o Booked) bool {
		return o.TrackingID != e.ID && merchant.MayBeSame(o.TxIndex, e.TxIndex)
	})
}

// readRestored returns the statements that read what claims need to know of a restore.
func (in *inboxTx) readRestored(ids map[countersign.Type][]string, transfers, payments []string) []db.Statement {
	d := in.b.Dialect()
	in.booked = bookedBefore{map[string]string{}, map[string][]Booked{}}
	list := []db.Statement{
		in.epochs.Query(),
		{SQL: readBookedSQL, Args: []any{d.List(ids[countersign.TypeDeposited])}, Row: func(r db.Rows) error {
			var id, sum string
			err := r.Scan(&id, &sum)
			in.booked.sums[id] = sum
			return err
		}},
	}
	if len(transfers) > 0 {
		scan := func(r db.Rows) error {
			var b Booked
			err := r.Scan(&b.Transfer, &b.TrackingID, &b.TxIndex)
			in.booked.transfers[b.Transfer] = append(in.booked.transfers[b.Transfer], b)
			return err
		}
		list = append(list, db.Statement{SQL: readBookedTransfersSQL, Args: []any{d.List(transfers)}, Row: scan},
			db.Statement{SQL: readBookedPaymentsSQL, Args: []any{d.List(payments)}, Row: scan})
	}
	return list
}

// checkReconciled returns an error if the book was restored and is not reconciled. An order may have been confirmed
// and executed before the restore. A user who reads that it has ended would then get the funds back too early. What
// the limits still allow is not known either.
func checkReconciled(ctx context.Context, t *db.Tx) error {
	open, err := db.EpochIsOpen(ctx, t)
	if err == nil && open {
		err = &db.ConflictError{Reason: "the gateway was restored from a backup and may have decided this before: nothing is decided until it is reconciled"}
	}
	return err
}

var errOrderRestored = &db.ConflictError{Reason: "the order is from before a restore, and nobody has said what became of it: reconcile, or resume it"}

const bookBeforeSQL = `
INSERT INTO booked_before (tracking_id, sum, transfer, payment, tx_index) SELECT $1, $2, $3, $4, CAST($5 AS BIGINT)
WHERE NOT EXISTS (SELECT 1 FROM inbox WHERE type = 1 AND id = $1)
ON CONFLICT (tracking_id) DO NOTHING`

// BookedBefore stores deposits that the application has booked and that the book does not know. If the service sends
// one again, it does not count.
func (b *Book) BookedBefore(ctx context.Context, list []Booked) error {
	var statements []db.Statement
	for _, x := range list {
		if err := db.CheckIdentifier("trackingId", x.TrackingID); err != nil {
			return err
		}
		if err := db.CheckText("symbol", x.Sum); err != nil {
			return err
		}
		statements = append(statements, db.Statement{SQL: bookBeforeSQL,
			Args: []any{x.TrackingID, x.Sum, x.Transfer, x.Payment, x.TxIndex}})
	}
	return b.Write(ctx, func(ctx context.Context, t *db.Tx) error { return t.Batch(ctx, statements) })
}

// IsBookedBefore reports whether BookedBefore has stored a deposit.
func (b *Book) IsBookedBefore(ctx context.Context, trackingID string) (bool, error) {
	var is int
	return db.One(ctx, b, `SELECT 1 FROM booked_before WHERE tracking_id = $1`, []any{trackingID}, &is)
}

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
