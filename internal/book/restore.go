package book

import (
	"context"
	"encoding/hex"
	"slices"

	"countersign"
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

// keyOf returns the stored form of a Transfer or a Payment. It returns "" if there is none. Half of the digest
// suffices to distinguish them and keeps the index small.
func keyOf(d merchant.Digest) string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:16])
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
	return db.One(ctx, b, `SELECT 1 FROM booked_before WHERE tracking_id = $1`, []any{trackingID})
}
