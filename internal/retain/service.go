package retain

import (
	"cmp"
	"context"
	"slices"

	"countersign"
	"countersign/internal/audit"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Service purges a service's database: callbacks that are settled, with their attempts. A
// callback that was accepted leaves a row in purged, so that its repetition is known. The
// question about a withdrawal goes when the withdrawal has ended; the withdrawal itself
// stays, and the feed of decisions too. What was refused or exhausted stays until
// somebody resends it.
func Service(c Config) (*Purger, error) { return newPurger(c, service{}) }

type service struct{}

func (service) kind() string { return audit.CallbacksPurged }

func (service) moved(*state, batch) {}

func (service) stateSQL() string {
	return `SELECT next, before, merchant, id, 0, 0, walked, purged FROM retention WHERE one = 1`
}

const moveServiceSQL = `UPDATE retention SET next = $1, before = $2, merchant = $3, id = $4, walked = $5, purged = $6 WHERE one = 1`

func (service) move(s state) db.Statement {
	return db.Statement{SQL: moveServiceSQL, Args: []any{int64(s.next), int64(s.before), s.place.merchant, s.place.id, s.walked, s.purged}}
}

// row is a callback, or a deposit of the gateway, that may go.
type row struct {
	merchant, id, event string
	typ                 countersign.Type
	payload             []byte
	seq                 int64 // of the gateway

	waits    string    // its state in outbox; empty: it is accepted
	settled  db.Millis // when it ended, if it is not accepted
	accepted int64     // 1: an attempt was accepted
	last     db.Millis // the end of the last attempt
	state    outbox.WithdrawalState
	ended    db.Millis // the withdrawal
}

// may reports whether a callback was settled before a time and is never needed again.
func (r *row) may(before db.Millis) bool {
	if r.last >= before || r.settled >= before {
		return false
	}
	if r.typ != countersign.TypeRequestWithdraw {
		return r.waits == "" && r.accepted == 1
	}
	switch outbox.CallbackState(r.waits) {
	case outbox.CallbackPending, outbox.CallbackSending:
		return false
	}
	switch r.state {
	case outbox.WithdrawalDeclined, outbox.WithdrawalExpired, outbox.WithdrawalCancelled, outbox.WithdrawalBlocked, outbox.WithdrawalLapsed,
		outbox.WithdrawalExecuted, outbox.WithdrawalFailed:
		return r.ended < before
	}
	return false // awaiting, confirmed, released
}

// findSQL reads callbacks in the order of their time. Subselects keep PostgreSQL from
// reading whole tables for a join.
const findSQL = `
SELECT c.merchant, c.id, c.type, c.event_id, c.payload,
	COALESCE((SELECT o.state FROM outbox o WHERE o.merchant = c.merchant AND o.id = c.id), ''),
	COALESCE((SELECT o.settled FROM outbox o WHERE o.merchant = c.merchant AND o.id = c.id), 0),
	COALESCE((SELECT MAX(a.accepted) FROM attempts a WHERE a.merchant = c.merchant AND a.callback = c.id), 0),
	COALESCE((SELECT MAX(a.settled) FROM attempts a WHERE a.merchant = c.merchant AND a.callback = c.id), 0),
	COALESCE((SELECT w.state FROM withdrawals w WHERE w.merchant = c.merchant AND w.id = c.id), ''),
	COALESCE((SELECT CASE WHEN w.ended > w.decided THEN w.ended ELSE w.decided END FROM withdrawals w WHERE w.merchant = c.merchant AND w.id = c.id), 0)
FROM callbacks c WHERE (c.id, c.merchant) > ($1, $2) AND c.id < $3 ORDER BY c.id, c.merchant LIMIT CAST($4 AS BIGINT)`

func (service) find(ctx context.Context, q db.Querier, s state, cutoff db.Millis, most int) (b batch, err error) {
	n := 0
	b.place = s.place
	err = db.Each(ctx, q, findSQL, []any{s.place.id, s.place.merchant, db.IDAt(cutoff), most}, func(r db.Rows) error {
		var v row
		err := r.Scan(&v.merchant, &v.id, &v.typ, &v.event, &v.payload, &v.waits, &v.settled, &v.accepted, &v.last, &v.state, &v.ended)
		n++
		b.place = place{merchant: v.merchant, id: v.id}
		if v.may(cutoff) {
			b.rows = append(b.rows, v)
		}
		return err
	})
	b.ended = n < most
	// The order in which ingest locks them.
	slices.SortFunc(b.rows, func(x, y row) int {
		return cmp.Or(cmp.Compare(x.merchant, y.merchant), cmp.Compare(x.event, y.event), cmp.Compare(x.typ, y.typ))
	})
	return b, err
}

const (
	// lockSQL leaves out what somebody else works on, such as who is about to send it once
	// more. The statements after it see what was committed before.
	lockSQL = `SELECT 1 FROM callbacks WHERE merchant = $1 AND id = $2{skip}`

	// purgeSQL leaves out what was made due again, or settled once more, since it was
	// found.
	purgeSQL = `
DELETE FROM callbacks WHERE merchant = $1 AND id = $2
	AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.merchant = $1 AND o.id = $2 AND (o.state IN ('pending', 'sending') OR o.lane = 0))`

	purgeAttemptsSQL = `DELETE FROM attempts WHERE merchant = $1 AND callback = $2`

	purgeEndedSQL = `DELETE FROM outbox WHERE merchant = $1 AND id = $2`
)

func (service) purge(ctx context.Context, t *db.Tx, b batch) (total int64, err error) {
	gone := make([]int64, len(b.rows))
	locked := make([]bool, len(b.rows))
	list := make([]db.Statement, len(b.rows))
	for i, r := range b.rows {
		list[i] = db.Statement{SQL: lockSQL, Args: []any{r.merchant, r.id}, Row: func(db.Rows) error {
			locked[i] = true
			return nil
		}}
	}
	if err := t.Batch(ctx, list); err != nil {
		return 0, err
	}
	list = list[:0]
	for i, r := range b.rows {
		if locked[i] {
			list = append(list, db.Statement{SQL: purgeSQL, Args: []any{r.merchant, r.id}, N: &gone[i]})
		}
	}
	if err := t.Batch(ctx, list); err != nil {
		return 0, err
	}
	list = list[:0]
	var kept []any
	for i, r := range b.rows {
		if gone[i] == 0 {
			continue
		}
		total++
		list = append(list, db.Statement{SQL: purgeAttemptsSQL, Args: []any{r.merchant, r.id}}, outbox.PurgeUnread(r.merchant+"."+r.id))
		switch {
		case r.typ == countersign.TypeRequestWithdraw: // its withdrawal stays
			list = append(list, db.Statement{SQL: purgeEndedSQL, Args: []any{r.merchant, r.id}})
		case r.event != r.id: // else no repetition can name it
			kept = outbox.PurgedArgs(kept, outbox.PurgedKey{Merchant: r.merchant, Type: r.typ, ID: r.event}, r.id, r.payload)
		}
	}
	return total, t.Batch(ctx, append(list, outbox.KeepPurged(kept)...))
}
