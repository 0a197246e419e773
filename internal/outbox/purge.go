package outbox

import (
	"cmp"
	"context"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// NewPurger returns a purger of settled callbacks and their attempts. An accepted callback leaves a row in purged, so
// that a repetition is recognized. The question about a withdrawal is purged once the withdrawal has ended, and so
// are the approvals of its release. The withdrawal itself and the feed of decisions stay. Refused and exhausted
// callbacks stay until somebody resends them.
func NewPurger(c db.PurgeConfig) (*db.Purger, error) {
	return db.NewPurger(c, db.Purging{
		Find:    findSettled,
		ReadSQL: `SELECT next, before, merchant, id, 0, 0, walked, purged FROM retention WHERE one = 1`,
		Move: func(s db.PurgeState) db.Statement {
			next, before, walked, purged := s.Args()
			return db.Statement{SQL: movePurgeSQL, Args: []any{next, before, s.Place.Merchant, s.Place.ID, walked, purged}}
		},
		Ended: journal.Purges(journal.CallbacksPurged),
	})
}

const movePurgeSQL = `UPDATE retention SET next = $1, before = $2, merchant = $3, id = $4, walked = $5, purged = $6 WHERE one = 1`

// settledRow is a callback that may be purged.
type settledRow struct {
	merchant, id, event string
	typ                 countersign.Type
	payload             []byte

	waits    string    // its state in outbox; empty: it is accepted
	accepted int64     // 1: an attempt was accepted
	last     db.Millis // the end of the last attempt
	state    client.WithdrawalState
	ended    db.Millis // the withdrawal
}

// may reports whether the callback was settled before a time and is not needed any more.
func (r *settledRow) may(before db.Millis) bool {
	if r.last >= before {
		return false
	}
	if r.typ != countersign.TypeRequestWithdraw {
		return r.waits == "" && r.accepted == 1
	}
	switch client.CallbackState(r.waits) {
	case client.CallbackPending, client.CallbackSending:
		return false
	}
	switch r.state {
	case client.WithdrawalDeclined, client.WithdrawalExpired, client.WithdrawalCancelled, client.WithdrawalBlocked,
		client.WithdrawalLapsed,
		client.WithdrawalExecuted, client.WithdrawalFailed:
		return r.ended < before
	}
	return false // awaiting, confirmed, released
}

// findSettledSQL reads callbacks in the order of time. The subselects keep PostgreSQL from reading whole tables for a
// join.
const findSettledSQL = `
SELECT c.merchant, c.id, c.type, c.event_id, c.payload,
	COALESCE((SELECT o.state FROM outbox o WHERE o.merchant = c.merchant AND o.id = c.id), ''),
	COALESCE((SELECT MAX(a.accepted) FROM attempts a WHERE a.merchant = c.merchant AND a.callback = c.id), 0),
	COALESCE((SELECT MAX(a.settled) FROM attempts a WHERE a.merchant = c.merchant AND a.callback = c.id), 0),
	COALESCE((SELECT w.state FROM withdrawals w WHERE w.merchant = c.merchant AND w.id = c.id), ''),
	COALESCE((SELECT CASE WHEN w.ended > w.decided THEN w.ended ELSE w.decided END FROM withdrawals w WHERE w.merchant = c.merchant AND w.id = c.id), 0)
FROM callbacks c WHERE (c.id, c.merchant) > ($1, $2) AND c.id < $3 ORDER BY c.id, c.merchant LIMIT CAST($4 AS BIGINT)`

func findSettled(ctx context.Context, q db.Querier, s db.PurgeState, cutoff db.Millis,
	most int) (b db.PurgeBatch, err error) {
	n := 0
	b.Place = s.Place
	var rows []settledRow
	err = db.Each(ctx, q, findSettledSQL, []any{s.Place.ID, s.Place.Merchant, db.IDAt(cutoff), most},
		func(r db.Rows) error {
			var v settledRow
			err := r.Scan(&v.merchant, &v.id, &v.typ, &v.event, &v.payload, &v.waits, &v.accepted, &v.last, &v.state, &v.ended)
			n++
			b.Place = db.PurgePlace{Merchant: v.merchant, ID: v.id}
			if v.may(cutoff) {
				rows = append(rows, v)
			}
			return err
		})
	b.Ended = n < most
	// Ingest locks them in this order.
	slices.SortFunc(rows, func(x, y settledRow) int {
		return cmp.Or(cmp.Compare(x.merchant, y.merchant), cmp.Compare(x.event, y.event), cmp.Compare(x.typ, y.typ))
	})
	b.Rows, b.Purge = len(rows), func(ctx context.Context, t *db.Tx) (int64, error) { return purgeSettled(ctx, t, rows) }
	return b, err
}

const (
	// lockSettledSQL skips rows that others have locked, for instance to send them once more. The statements after it
	// see what those transactions have committed.
	lockSettledSQL = `SELECT 1 FROM callbacks WHERE merchant = $1 AND id = $2{skip}`

	// purgeSettledSQL skips callbacks that were made due or settled again after they were found.
	purgeSettledSQL = `
DELETE FROM callbacks WHERE merchant = $1 AND id = $2
	AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.merchant = $1 AND o.id = $2 AND (o.state IN ('pending', 'sending') OR o.lane = 0))`

	purgeAttemptsSQL = `DELETE FROM attempts WHERE merchant = $1 AND callback = $2`

	purgeEndedSQL = `DELETE FROM outbox WHERE merchant = $1 AND id = $2`
)

func purgeSettled(ctx context.Context, t *db.Tx, rows []settledRow) (total int64, err error) {
	gone := make([]int64, len(rows))
	locked := make([]bool, len(rows))
	list := make([]db.Statement, len(rows))
	for i, r := range rows {
		list[i] = db.Statement{SQL: lockSettledSQL, Args: []any{r.merchant, r.id}, Row: func(db.Rows) error {
			locked[i] = true
			return nil
		}}
	}
	if err := t.Batch(ctx, list); err != nil {
		return 0, err
	}
	list = list[:0]
	for i, r := range rows {
		if locked[i] {
			list = append(list, db.Statement{SQL: purgeSettledSQL, Args: []any{r.merchant, r.id}, N: &gone[i]})
		}
	}
	if err := t.Batch(ctx, list); err != nil {
		return 0, err
	}
	list = list[:0]
	var kept []any
	for i, r := range rows {
		if gone[i] == 0 {
			continue
		}
		total++
		list = append(list, db.Statement{SQL: purgeAttemptsSQL, Args: []any{r.merchant, r.id}})
		switch {
		case r.typ == countersign.TypeRequestWithdraw: // its withdrawal stays
			list = append(list, db.Statement{SQL: purgeEndedSQL, Args: []any{r.merchant, r.id}},
				db.DropApprovals(aboutWithdrawal(r.merchant+"."+r.id)),
				db.Statement{SQL: dropAnswerSQL, Args: []any{joinID(r.merchant, r.id)}})
		case r.event != r.id: // otherwise no repetition can name it
			kept = purgedArgs(kept, purgedKey{Merchant: r.merchant, Type: r.typ, ID: r.event}, r.id, r.payload)
		}
	}
	return total, t.Batch(ctx, append(list, insertPurged.Statements(kept, nil)...))
}
