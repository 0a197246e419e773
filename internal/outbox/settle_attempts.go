package outbox

import (
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

const insertAttemptSQL = `
INSERT INTO attempts (merchant, callback, number, request_uuid, started, duration, http_status, err_code, outcome, reason,
	node, request_hash, response_hash, late, accepted, settled, failed, facts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`

// attemptParams is how many parameters insertAttemptSQL has.
const attemptParams = 18

var insertAttempts = db.NewInsert(insertAttemptSQL, 100, 10)

const keepLateAttemptSQL = insertAttemptSQL + ` ON CONFLICT (merchant, callback, number) DO NOTHING`

// late is -1 if the callback is known and the attempt is not.
const sameAttemptSQL = `
SELECT COALESCE(a.request_uuid, ''), COALESCE(a.late, -1) FROM callbacks c
	LEFT JOIN attempts a ON a.merchant = c.merchant AND a.callback = c.id AND a.number = $3
WHERE c.merchant = $1 AND c.id = $2`

// settleAttempts records the attempts. It recognizes settlements that an earlier call had already applied.
func (o *Outbox) settleAttempts(ctx context.Context, t *db.Tx, batch []*settling) error {
	var looks []db.Statement
	for _, b := range batch {
		if b.fresh = b.found == 1; b.fresh {
			continue
		}
		looks = append(looks, db.Statement{SQL: sameAttemptSQL, Args: []any{b.Merchant, b.id, b.Attempt.Number},
			Row: func(r db.Rows) error {
				var uuid string
				var late int64
				err := r.Scan(&uuid, &late)
				b.fresh, b.out.Applied = late < 0, late == 0 && uuid == db.Clean(b.Attempt.RequestUUID)
				return err
			}})
	}
	if err := t.Batch(ctx, looks); err != nil {
		return err
	}
	var late []db.Statement
	args := make([]any, 0, attemptParams*len(batch))
	for _, b := range batch {
		switch {
		case b.found == 1:
			args = b.attempt(args, false)
		case b.fresh:
			late = append(late, db.Statement{SQL: keepLateAttemptSQL, Args: b.attempt(nil, true)})
		}
	}
	return t.Batch(ctx, append(insertAttempts.Statements(args, nil), late...))
}

// attempt appends the values of insertAttemptSQL.
func (b *settling) attempt(to []any, late bool) []any {
	a := &b.Attempt
	var code any
	if a.ErrCode != nil {
		code = *a.ErrCode
	}
	return append(to, b.Merchant, b.id, a.Number, db.Clean(a.RequestUUID), int64(a.Started), a.DurationMs, a.HTTPStatus,
		code, db.Clean(string(a.Result)), db.Clean(string(a.Reason)), db.Clean(a.Node), unhex(a.RequestHash),
		unhex(a.ResponseHash), flag(late), flag(!late && b.state == client.CallbackAccepted), int64(b.now),
		int64(b.Failed)+b.found*flag(b.Counts), a.factsText())
}

// settleDecided queues the callbacks about the withdrawals that the batch declined or let expire. It compares answers
// that came after the decision with that decision. The first decision stands (PROTOCOL.md, D4).
func (o *Outbox) settleDecided(ctx context.Context, t *db.Tx, batch []*settling, feed *feedEntries) error {
	var reads []db.Statement
	withdrawals := make([]Withdrawal, len(batch))
	for i, b := range batch {
		if b.awaiting == 1 && b.decided != countersign.DecisionConfirmed || b.Decision != countersign.DecisionNone &&
			b.fresh && b.awaiting == 0 {
			reads = append(reads, withdrawals[i].read(readWithdrawalSQL, b.Merchant, b.id))
		}
	}
	if err := t.Batch(ctx, reads); err != nil {
		return err
	}
	for i, b := range batch {
		w := &withdrawals[i]
		if b.awaiting == 1 && w.ID != "" {
			if err := o.announceEnd(ctx, t, w, b.now); err != nil {
				return err
			}
		}
		if w.Decision == countersign.DecisionNone || b.awaiting == 1 && b.decided == b.Decision {
			continue // awaiting: another attempt will decide
		}
		b.out.Late = true
		// If a deadline or a cancellation decided, there was no answer to contradict.
		b.out.Differs = answered(w.Decision) && answered(b.Decision) && (w.Decision != b.Decision ||
			b.Decision == countersign.DecisionConfirmed &&
				(w.Details == nil || b.Details.Differs(*w.Details) != ""))
		if b.out.Differs {
			feed.alarm(b.Merchant, client.AlarmAnswerDiffers, w.ID+" "+string(client.ReasonAnswerDiffers), b.now)
		}
	}
	return nil
}

// answered reports whether an answer of the merchant made the decision.
func answered(d countersign.Decision) bool {
	return d == countersign.DecisionConfirmed || d == countersign.DecisionDeclined
}

// openFailureWindow is how long an opening failure counts.
const openFailureWindow db.Millis = 3_600_000

const lockMerchantSQL = `SELECT 1 FROM merchants WHERE id = $1{lock}`

const keepOpenFailureSQL = `
INSERT INTO open_failures (merchant, callback, number, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (merchant, callback, number) DO NOTHING`

const dropOpenFailuresSQL = `DELETE FROM open_failures WHERE merchant = $1 AND at <= $2`

const countOpenFailuresSQL = `SELECT COUNT(*) FROM open_failures WHERE merchant = $1`

// settleOpenFailures counts opening failures. It pauses a merchant with too many of them, because an attacker may be
// testing keys or paddings.
func (o *Outbox) settleOpenFailures(ctx context.Context, t *db.Tx, batch []*settling, feed *feedEntries,
	now db.Millis) error {
	for _, b := range batch {
		if !b.OpenFailure || !b.fresh {
			continue
		}
		// The lock makes the nodes count one after another.
		err := t.Batch(ctx, []db.Statement{{SQL: lockMerchantSQL, Args: []any{b.Merchant},
			Row: func(db.Rows) error { return nil }},
			{SQL: dropOpenFailuresSQL, Args: []any{b.Merchant, int64(now - openFailureWindow)}},
			{SQL: keepOpenFailureSQL, Args: []any{b.Merchant, b.id, b.Attempt.Number, int64(now)}}})
		if err != nil {
			return err
		}
	}
	// A repeated settlement gets the count too, because its first call may have failed.
	for _, b := range batch {
		if !b.OpenFailure {
			continue
		}
		if _, err := db.One(ctx, t, countOpenFailuresSQL, []any{b.Merchant}, &b.out.OpenFailures); err != nil {
			return err
		}
		if !b.fresh || b.out.OpenFailures < OpenFailureLimit {
			continue
		}
		paused, err := o.pause(ctx, t, b.Merchant, now)
		if err != nil {
			return err
		}
		if paused {
			b.out.Paused = true
			feed.alarm(b.Merchant, client.AlarmOpenFailures, b.CallbackID, now)
		}
	}
	return nil
}
