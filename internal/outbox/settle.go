package outbox

import (
	"context"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// Settle ends attempts in one transaction and returns the result of each, in the same order. A settlement that has
// lost its lease changes nothing and does not affect the others; its attempt is recorded as late. Repeating a call
// changes nothing and returns the same Applied, but sets Late and Differs only the first time.
//
// A confirmation that arrives at its withdrawal's deadline or later expires the withdrawal instead. A confirmation by
// an attempt that has lost its lease never decides. An answer decides nothing while its merchant is paused or the
// service is frozen. No answer counts, to whatever callback, if that was sent under an older version of the merchant,
// which may have had other keys. The callback is then due again at once, and nothing counts against it. A withdrawal
// from before a restore is not decided until somebody has said what became of it.
//
// Rows are locked in one order: callbacks by merchant and id, each with its withdrawal, then merchants, then lanes,
// then the feeds.
func (o *Outbox) Settle(ctx context.Context, settlements []Settlement, now db.Millis) ([]Settled, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	order := sortedByID(len(settlements), func(i int) string { return settlements[i].CallbackID })
	done := make([]Settled, len(settlements))
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		clear(done)
		batch := make([]*settling, 0, len(settlements))
		for _, i := range order {
			b, err := newSettling(settlements[i], &done[i], now)
			if err != nil {
				return &db.ItemError{Item: i, Err: err}
			}
			batch = append(batch, b)
		}
		return o.settle(ctx, t, batch, now)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// settle runs the steps in the order of their locks.
func (o *Outbox) settle(ctx context.Context, t *db.Tx, batch []*settling, now db.Millis) error {
	feed := &feedEntries{}
	if err := o.settleCallbacks(ctx, t, batch, feed); err != nil {
		return err
	}
	if err := o.settleAnswers(ctx, t, batch); err != nil {
		return err
	}
	if err := o.settleAttempts(ctx, t, batch); err != nil {
		return err
	}
	if err := o.settleDecided(ctx, t, batch, feed); err != nil {
		return err
	}
	if err := o.settleOpenFailures(ctx, t, batch, feed, now); err != nil {
		return err
	}
	changes := laneChanges{}
	for _, b := range batch {
		if b.awaiting == 1 {
			countMoved(t, client.WithdrawalAwaiting, client.WithdrawalState(b.decided))
		}
		if b.fresh && b.Alarm != "" {
			feed.alarms = append(feed.alarms, b.alarm())
		}
		if b.found == 0 {
			continue
		}
		change := changes.of(b.Merchant, b.Type.Lane())
		change.Freed++
		change.Reached = append(change.Reached, b.Reached)
		if b.state == client.CallbackPending {
			changes.back(b.Merchant, b.Type.Lane(), b.Due)
		} else {
			t.Count(countOfEnded(b.Type.Lane(), b.state), 1)
		}
	}
	if err := o.recordBatch(ctx, t, batch, now); err != nil {
		return err
	}
	if err := o.changeLanes(ctx, t, changes, now, settleHealth(batch, now)...); err != nil {
		return err
	}
	return feed.write(ctx, t)
}

const (
	settleAcceptedSQL = `
DELETE FROM outbox WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3`

	settleOtherSQL = `
UPDATE outbox SET state = $4, due = $5, failed = failed + $6, lease_until = 0, last_reason = $7, settled = $8, held = held + $9
WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3`

	// A decision needs the deadline, and whether the withdrawal is from before a restore.
	settleDecisionSQL = `
SELECT c.deadline,
	(SELECT COUNT(*) FROM withdrawals w WHERE w.merchant = c.merchant AND w.id = c.id AND w.restored <> 0)
FROM outbox c WHERE c.merchant = $1 AND c.id = $2 AND c.state = 'sending' AND c.attempts = $3{lock c}`
)

// settleCallbacks ends the attempts that still have their lease and makes their decisions.
func (o *Outbox) settleCallbacks(ctx context.Context, t *db.Tx, batch []*settling, feed *feedEntries) error {
	var ids []string
	for _, b := range batch { // in the order of merchants
		if b.isAnswer() && (len(ids) == 0 || ids[len(ids)-1] != b.Merchant) {
			ids = append(ids, b.Merchant)
		}
	}
	look, statements := &stopLook{}, []db.Statement(nil)
	if len(ids) > 0 {
		look, statements = o.lookAt(ids)
	}
	key := func(b *settling, args ...any) []any {
		return append([]any{b.Merchant, b.id, b.Attempt.Number}, args...)
	}
	// Each guarded statement runs once. The read for a decision only takes the lock.
	end := func(b *settling) {
		s := db.Statement{SQL: settleAcceptedSQL, Args: key(b), N: &b.found}
		if b.state != client.CallbackAccepted {
			settled := int64(b.now) * flag(b.state != client.CallbackPending)
			s.SQL, s.Args = settleOtherSQL, key(b, string(b.state), int64(b.Due), flag(b.Counts),
				db.Clean(string(b.Attempt.Reason)), settled, flag(b.Held))
		}
		statements = append(statements, s)
	}
	for _, b := range batch {
		if b.Decision != countersign.DecisionNone {
			statements = append(statements, db.Statement{SQL: settleDecisionSQL, Args: key(b),
				Row: func(r db.Rows) error { return b.scanDecision(r, look) }})
		}
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	statements = statements[:0]
	for _, b := range batch {
		if b.Decision == countersign.DecisionNone {
			if m, known := look.merchants[b.Merchant]; b.isAnswer() && (!known || m.Version != b.MerchantVersion) {
				b.stopped = client.ReasonOlderVersion
				statements = append(statements, db.Statement{SQL: settleOtherSQL, N: &b.found,
					Args: key(b, string(client.CallbackPending), int64(b.now), 0, string(b.stopped), 0, 0)})
			} else {
				end(b)
			}
		} else if b.found == 1 {
			b.decided = b.Decision
			if b.decided == countersign.DecisionConfirmed && b.now >= b.deadline && b.stopped != client.ReasonRestored {
				b.decided, b.state = countersign.DecisionExpired, client.CallbackExhausted
			}
			if b.stopped == client.ReasonRestored || b.stopped != "" && b.decided != countersign.DecisionExpired {
				b.askAgain()
			} else {
				statements = append(statements, b.decide())
			}
			end(b)
		}
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	for _, b := range batch {
		if b.out.Applied = b.found == 1; !b.out.Applied {
			continue
		}
		if b.stopped == client.ReasonOlderVersion && b.Decision == countersign.DecisionNone {
			b.askAgain()
		}
		if b.awaiting == 1 {
			feed.decision(b.Merchant, b.id)
			b.out.Decision = b.decided
		}
	}
	return nil
}

// scanDecision reads a row of settleDecisionSQL.
func (b *settling) scanDecision(r db.Rows, look *stopLook) error {
	b.found = 1
	var restored int64
	if err := r.Scan(&b.deadline, &restored); err != nil {
		return err
	}
	stop, m := look.of(b.Merchant)
	if b.stopped = stop; stop == "" && m.Version != b.MerchantVersion {
		b.stopped = client.ReasonOlderVersion
	}
	if restored > 0 {
		b.stopped = client.ReasonRestored
	}
	b.within, b.signs = db.Millis(time.Duration(m.ReleaseWithin).Milliseconds()), m.AnswerKey != ""
	return nil
}

const decideSQL = `
UPDATE withdrawals SET state = $3, decision = $3, reason = $4, decided = $5,
	confirmed_address = $6, confirmed_chain = $7, confirmed_symbol = $8, confirmed_amount = $9, release_by = $10
WHERE merchant = $1 AND id = $2 AND state = 'awaiting'`

// decide returns the statement that makes the decision if there is none yet.
func (b *settling) decide() db.Statement {
	reason := client.Reason(db.Clean(string(b.Attempt.Reason)))
	var d countersign.Details
	releaseBy := db.Millis(0)
	switch b.decided {
	case countersign.DecisionConfirmed:
		d, releaseBy = b.Details, b.now+b.within
	case countersign.DecisionExpired:
		reason = client.ReasonDeadline
	}
	return db.Statement{SQL: decideSQL, N: &b.awaiting, Args: []any{b.Merchant, b.id, string(b.decided), string(reason),
		int64(b.now), d.Address, d.ChainName, d.Symbol, d.Amount.String(), int64(releaseBy)}}
}
