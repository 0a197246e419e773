package outbox

import (
	"context"
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
)

const (
	lockCallbackSQL = `SELECT state FROM outbox WHERE merchant = $1 AND id = $2{lock}`

	lockQuestionSQL = `SELECT state, attempts FROM outbox WHERE merchant = $1 AND id = $2{lock}`

	cancelWithdrawalSQL = `
UPDATE withdrawals SET state = 'cancelled', decision = 'cancelled', reason = 'cancelled', decided = $3
WHERE merchant = $1 AND id = $2 AND state = 'awaiting' AND restored = 0`

	endCallbackSQL = `
UPDATE outbox SET state = $3, lease_until = 0, last_reason = $4, settled = $5 WHERE merchant = $1 AND id = $2`
)

// CancelWithdrawal makes an awaiting withdrawal and its callback cancelled. Repeating
// it gives the same result; any other state is a *ConflictError, and so is what may have been
// executed before a restore.
func (o *Outbox) CancelWithdrawal(ctx context.Context, id string, now db.Millis) (Withdrawal, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Withdrawal{}, err
	}
	var w Withdrawal
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		open, err := db.EpochIsOpen(ctx, t)
		if err == nil && !open {
			_, err = o.endWithdrawal(ctx, t, merchant, rest, cancelWithdrawalSQL, WithdrawalCancelled, CallbackCancelled, client.ReasonCancelled, now)
		}
		if err != nil {
			return err
		}
		w, err = findWithdrawal(ctx, t, readWithdrawalSQL+"{lock}", merchant, rest)
		return err
	})
	switch {
	case err != nil:
		return Withdrawal{}, err
	case w.State == WithdrawalAwaiting:
		return Withdrawal{}, &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
	case w.State != WithdrawalCancelled:
		return Withdrawal{}, &db.ConflictError{Reason: "the withdrawal is " + string(w.State)}
	}
	o.spend(ctx, &w, now)
	return w, nil
}

// endWithdrawal decides an awaiting withdrawal without an answer, by the statement
// text, which makes its state to, and ends its callback in any state; a result that
// comes later is late. If the question was sent, the merchant is told of the end. It reports
// whether the withdrawal was awaiting.
func (o *Outbox) endWithdrawal(ctx context.Context, t *db.Tx, merchant, id, text string, to WithdrawalState, state CallbackState, reason client.Reason, now db.Millis) (bool, error) {
	var was CallbackState
	var attempts int
	if _, err := db.One(ctx, t, lockQuestionSQL, []any{merchant, id}, &was, &attempts); err != nil {
		return false, err
	}
	n, err := t.Exec(ctx, text, merchant, id, int64(now))
	if err != nil || n == 0 {
		return false, err
	}
	if err := t.Batch(ctx, countMoved(t, nil, WithdrawalAwaiting, to, 1)); err != nil {
		return false, err
	}
	if attempts > 0 && to != WithdrawalConfirmed {
		w, err := findWithdrawal(ctx, t, readWithdrawalSQL, merchant, id)
		if err != nil {
			return false, err
		}
		if err := o.announceEnd(ctx, t, &w, now); err != nil {
			return false, err
		}
	}
	if finalIndex(was) < 0 {
		if _, err := t.Exec(ctx, endCallbackSQL, merchant, id, string(state), string(reason), int64(now)); err != nil {
			return false, err
		}
		changes := laneChanges{}
		if was == CallbackSending {
			changes.of(merchant, countersign.LaneWithdraw).Freed++
		}
		changes.ended(merchant, countersign.LaneWithdraw, state)
		if err := o.changeLanes(ctx, t, changes, now); err != nil {
			return false, err
		}
	}
	f := &feedEntries{}
	f.decision(merchant, id)
	if err := f.write(ctx, t); err != nil {
		return false, err
	}
	return true, audit.AddAbout(ctx, t, audit.WithdrawalDecided, joinID(merchant, id), now, audit.Decided{Merchant: merchant, Decision: string(to), Reason: string(reason)})
}

const releaseSQL = `
UPDATE withdrawals SET state = 'released', claim = $3, origin = $4, permit = $5, released = $6
WHERE merchant = $1 AND id = $2 AND state = 'confirmed' AND release_by > $6 AND restored = 0
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)
	AND EXISTS (SELECT 1 FROM merchants m WHERE m.id = $1 AND m.state = 'active')`

// A permit that was given before a restore belongs to whoever repeats its claim first.
const takeOriginSQL = `UPDATE withdrawals SET origin = $3 WHERE merchant = $1 AND id = $2 AND origin = ''`

// readPermitSQL locks the row, so that a failover does not lose a permit that is given again, and
// of two calls one gives it.
const readPermitSQL = `SELECT w.permit, ` + withdrawalColumns + ` FROM withdrawals w WHERE w.merchant = $1 AND w.id = $2{lock}`

// Release gives the one permit to execute a confirmed withdrawal to holder
// (PROTOCOL.md, D6). The same holder gets the same permit again as a duplicate, whatever
// the argument permit, also after the outcome. Any other holder gets a *ConflictError
// for ever and raises AlarmForeignClaim. A withdrawal without a permit is not released at
// its ReleaseBy or later. While the merchant is paused, the service is frozen or a restored
// database is not reconciled nobody gets a permit, the holder of one included. All of these are *ConflictErrors.
//
// It believes the evidence and not the row: the answer that confirmed the withdrawal is judged
// again (JudgeWith), and where the row says more than it does, or than what is kept of a permit,
// nobody gets one and AlarmEvidenceDiffers is raised (PROTOCOL.md, D9).
//
// What is above the merchant's ApproveAbove, and which no person has approved, gets no permit: a
// *ConflictError with the code awaiting_approval.
func (o *Outbox) Release(ctx context.Context, id string, holder Holder, permit string, now db.Millis) (Permit, error) {
	return o.ReleaseApproved(ctx, id, holder, permit, nil, now)
}

// ReleaseApproved is Release where approved judges the approvals of a withdrawal that a person must
// approve before this holder gets its permit. Nil: none is enough.
func (o *Outbox) ReleaseApproved(ctx context.Context, id string, holder Holder, permit string, approved Judge, now db.Millis) (Permit, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Permit{}, err
	}
	if holder.Claim == "" || holder.Origin == "" || permit == "" {
		return Permit{}, fmt.Errorf("claim, origin or permit is %w: it is empty", db.ErrInvalid)
	}
	if err := db.CheckTexts("claim", holder.Claim, "origin", holder.Origin, "permit", permit); err != nil {
		return Permit{}, err
	}
	// Before the transaction: RSA must not hold its locks.
	answer, err := o.judgeAgain(ctx, merchant, rest)
	if err != nil {
		return Permit{}, err
	}
	var r releasing
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		r = releasing{id: id, merchant: merchant, rest: rest, holder: holder, permit: permit, approved: approved, answer: answer, now: now}
		return o.release(ctx, t, &r)
	})
	w := &r.p.Withdrawal
	switch {
	case err != nil:
		return Permit{}, err
	case !r.found:
		return Permit{}, db.ErrNotFound
	case r.awaits:
		return Permit{}, &db.ConflictError{Code: client.CodeAwaitingApproval, Reason: "the amount is above the merchant's approveAbove: nothing is released until a person approves the withdrawal (withdrawals approve) with a token of another origin"}
	case r.differs:
		return Permit{}, &db.ConflictError{Reason: differText}
	case r.p.Permit != "" && !w.heldBy(holder):
		return Permit{}, &db.ConflictError{Member: "claim", Reason: "differs: another holder has the permit"}
	case r.p.Permit == "" && w.State != WithdrawalConfirmed:
		return Permit{}, &db.ConflictError{Reason: "the withdrawal is " + string(w.State)}
	case r.stop != "":
		return Permit{}, &db.ConflictError{Reason: stopTexts[r.stop]}
	case r.p.Permit == "":
		return Permit{}, &db.ConflictError{Reason: "the withdrawal is " + string(WithdrawalLapsed)} // the sweep will make it so
	}
	if r.spent.Until != 0 {
		o.given.add(r.spent)
	}
	r.p.Epoch = r.epoch
	return r.p, nil
}

// releasing is one call of Release.
type releasing struct {
	id, merchant, rest string
	holder             Holder
	permit             string // for a new one
	approved           Judge
	answer             *judged
	now                db.Millis

	p       Permit
	found   bool
	stop    client.Reason
	differs bool
	awaits  bool // a person must approve it first
	epoch   int64
	spent   GivenPermit // to be remembered, if a permit was given
}

// release is Release in its transaction. The row is locked before the evidence is read, so both
// are of one moment.
func (o *Outbox) release(ctx context.Context, t *db.Tx, r *releasing) (err error) {
	var limits client.AmountLimits
	if r.stop, r.epoch, limits, err = o.stops(ctx, t, r.merchant); err != nil {
		return err
	}
	var kept keptEvidence
	p, w := &r.p, &r.p.Withdrawal
	read := db.Statement{SQL: readPermitSQL, Args: []any{r.merchant, r.rest}, Row: func(rows db.Rows) (err error) {
		r.found = true
		*w, err = scanWithdrawal(rows, &p.Permit)
		return err
	}}
	if err := t.Batch(ctx, []db.Statement{read, kept.read(t, r.merchant, r.rest)}); err != nil || !r.found {
		return err
	}
	if r.stop == "" && w.Restored {
		r.stop = client.ReasonRestored
	}
	if r.differs = o.differs(p, &kept, r.epoch, r.answer, r.stop, r.now); r.differs {
		if r.answer != nil && errors.Is(r.answer.err, ErrNotJudged) { // it says nothing of the row
			return r.answer.err
		}
		return db.RaiseAlarms(ctx, t, []db.Alarm{{Of: r.merchant, Kind: client.AlarmEvidenceDiffers, Subject: r.id, At: r.now}})
	}
	p.Duplicate = true
	if p.Permit == "" && w.State == WithdrawalConfirmed && w.ReleaseBy > r.now && r.stop == "" {
		if r.awaits, err = awaitsPerson(ctx, t, w, limits, r.approved); err != nil || r.awaits {
			return err
		}
		if err := o.give(ctx, t, r, &kept); err != nil {
			return err
		}
	}
	foreign := p.Permit != "" && !w.heldBy(r.holder)
	if r.stop == "" || foreign { // a stop gives no permit again
		if err := recordRelease(ctx, t, p, r.holder, r.now); err != nil {
			return err
		}
	}
	if foreign {
		return db.RaiseAlarms(ctx, t, []db.Alarm{{Of: r.merchant, Kind: client.AlarmForeignClaim, Subject: r.id, At: r.now}})
	}
	if p.Permit != "" && w.Origin == "" && r.stop == "" {
		w.Origin = r.holder.Origin
		kept.given.Origin = r.holder.Origin
		keep, err := keepGiven(t, r.merchant, r.rest, *kept.given)
		if err != nil {
			return err
		}
		return t.Batch(ctx, []db.Statement{{SQL: takeOriginSQL, Args: []any{r.merchant, r.rest, r.holder.Origin}}, keep})
	}
	return nil
}

// give gives the permit. One guarded statement decides; what is kept of it is written beside it.
func (o *Outbox) give(ctx context.Context, t *db.Tx, r *releasing, kept *keptEvidence) error {
	n, err := t.Exec(ctx, releaseSQL, r.merchant, r.rest, r.holder.Claim, r.holder.Origin, r.permit, int64(r.now))
	if err != nil {
		return err
	}
	if n == 0 { // a stop that began after it was looked at
		r.stop = client.ReasonPaused
		return nil
	}
	g := kept.givenTo(r.holder, r.permit, r.now)
	keep, err := keepGiven(t, r.merchant, r.rest, g)
	if err != nil {
		return err
	}
	w := &r.p.Withdrawal
	w.State, w.Claim, w.Origin, w.Released = WithdrawalReleased, r.holder.Claim, r.holder.Origin, r.now
	r.p.Permit, r.p.Duplicate = r.permit, false
	r.spent = GivenPermit{permitKey(w.Merchant, w.CallBackID, kept.epoch), g.Until}
	return t.Batch(ctx, countMoved(t, []db.Statement{keep}, WithdrawalConfirmed, WithdrawalReleased, 1))
}

// stops gives why nothing of a merchant is released, and the present epoch.
func (o *Outbox) stops(ctx context.Context, t *db.Tx, merchant string) (stop client.Reason, epoch int64, limits client.AmountLimits, err error) {
	of, state := map[string]*keptMerchant{}, MerchantPaused
	var epochs db.LookAtEpochs
	var look freezeLook
	err = t.Batch(ctx, append(o.lookAtStops(nil), ofMerchants(t, o.Dialect(), []string{merchant}, of), look.statement(t), epochs.Statement(t)))
	if err != nil {
		return "", 0, nil, err
	}
	if m := of[merchant]; m != nil {
		state = m.State
		if limits, err = m.approveAbove(); err != nil {
			return "", 0, nil, err
		}
	}
	if stop = stopped(state, o.freezes.judge(t, &look)); stop == "" && epochs.Last().Open() {
		stop = client.ReasonRestored
	}
	return stop, epochs.Last().Number, limits, nil
}

// stopTexts tell callers why no permit is given at the moment.
var stopTexts = map[client.Reason]string{
	client.ReasonFrozen:   "the service is frozen: nothing is released until it is thawed",
	client.ReasonPaused:   "the merchant is paused: nothing of it is released until it is resumed",
	client.ReasonRestored: "this may have been released before a restore: nothing becomes of it until the restore is reconciled and the core or a person has said that nothing became of it",
}

const recordOutcomeSQL = `
UPDATE withdrawals SET state = $4, tx_id = $5, fail_reason = $6, ended = $7
WHERE merchant = $1 AND id = $2 AND permit = $3 AND state = 'released'`

// RecordOutcome ends a released withdrawal and queues outcome.Callback in the same
// transaction. The callback's event id is the withdrawal's callBackId, whatever its
// EventID, or a new id if another callback uses that. The same outcome again is a
// duplicate; another outcome, or another permit, is a *ConflictError. Another end or
// transaction under the right permit is recorded and raises outcome_differs. One that
// names a transaction is told to the merchant, since funds may have moved.
func (o *Outbox) RecordOutcome(ctx context.Context, id string, outcome Outcome, now db.Millis) (w Withdrawal, duplicate bool, err error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Withdrawal{}, false, err
	}
	row, state, err := o.checkOutcome(merchant, outcome, now)
	if err != nil {
		return Withdrawal{}, false, err
	}
	var recorded int64
	var permit string
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		var err error
		recorded, err = t.Exec(ctx, recordOutcomeSQL, merchant, rest, outcome.Permit, string(state), outcome.TxID, outcome.FailReason, int64(now))
		if err != nil {
			return err
		}
		w, err = db.Find(ctx, t, readPermitSQL, []any{merchant, rest}, func(r db.Rows) (Withdrawal, error) { return scanWithdrawal(r, &permit) })
		if err != nil {
			return err
		}
		if recorded == 0 {
			if permit != "" && permit == outcome.Permit && (w.State != state || w.TxID != outcome.TxID) {
				return o.contradict(ctx, t, w, state, outcome, row, now)
			}
			return nil
		}
		ended := audit.Ended{Withdrawal: audit.WithdrawalOf(merchant, w.CallBackID), State: string(state), Permit: audit.Fingerprint(outcome.Permit),
			TxID: outcome.TxID, Reason: outcome.FailReason}
		if err := audit.AddAbout(ctx, t, audit.WithdrawalEnded, id, now, ended); err != nil {
			return err
		}
		return o.announceOutcome(ctx, t, row, w, now, countMoved(t, nil, WithdrawalReleased, state, 1)...)
	})
	switch {
	case err != nil:
		return Withdrawal{}, false, err
	case recorded == 1:
		return w, false, nil
	case permit == "":
		return Withdrawal{}, false, &db.ConflictError{Reason: "the withdrawal is " + string(w.State)}
	case permit != outcome.Permit:
		return Withdrawal{}, false, &db.ConflictError{Member: "permit", Reason: "is not the one that was given"}
	case w.State != state || w.TxID != outcome.TxID || w.FailReason != outcome.FailReason:
		return Withdrawal{}, false, &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + " with another outcome"}
	}
	return w, true, nil
}

// tellsSQL finds whether the merchant is still to be told of a transaction.
const tellsSQL = `
SELECT 1 FROM merchants m WHERE m.id = $1 AND m.state <> 'deleted'
	AND NOT EXISTS (SELECT 1 FROM callbacks c WHERE c.merchant = $1 AND c.call_back_id = $2 AND c.tx_id = $3 AND c.type = 3)`

// contradict keeps an outcome that contradicts how w ended. Its callback is queued only if
// it names a transaction: that nothing moved is not said of funds that were told as moved.
func (o *Outbox) contradict(ctx context.Context, t *db.Tx, w Withdrawal, state WithdrawalState, outcome Outcome, row newRow, now db.Millis) error {
	differs := audit.Contradicted{Withdrawal: audit.WithdrawalOf(w.Merchant, w.CallBackID), Permit: audit.Fingerprint(outcome.Permit),
		Stands: audit.Outcome{State: string(w.State), TxID: w.TxID, Reason: w.FailReason}, Reported: audit.Outcome{State: string(state), TxID: outcome.TxID, Reason: outcome.FailReason}}
	if err := audit.AddAbout(ctx, t, audit.WithdrawalContradicted, w.ID, now, differs); err != nil {
		return err
	}
	if outcome.TxID != "" {
		var is int
		tells, err := db.One(ctx, t, tellsSQL, []any{w.Merchant, w.CallBackID, outcome.TxID}, &is)
		if err != nil {
			return err
		}
		if tells {
			if err := o.announceOutcome(ctx, t, row, w, now); err != nil {
				return err
			}
		}
	}
	return db.RaiseAlarms(ctx, t, []db.Alarm{{Of: w.Merchant, Kind: client.AlarmOutcomeDiffers, Subject: w.ID, At: now}})
}

// announceOutcome queues the callback of an outcome of w.
func (o *Outbox) announceOutcome(ctx context.Context, t *db.Tx, row newRow, w Withdrawal, now db.Millis, counted ...db.Statement) error {
	row.EventID, row.CallBackID, row.TenantUserID, row.Address = w.CallBackID, w.CallBackID, w.TenantUserID, targetOf(w.Details)
	return o.announce(ctx, t, row, now, counted...)
}

// RecordWaiting queues n, which says that a released withdrawal waits, and gives
// the callback's id. Each call queues one more: n is an event
// without an id of its own. A withdrawal that is not released any more, or not
// yet, is a *db.ConflictError.
func (o *Outbox) RecordWaiting(ctx context.Context, id string, n NewCallback, now db.Millis) (w Withdrawal, callback string, err error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Withdrawal{}, "", err
	}
	if n.Merchant != merchant || n.Type.Report() == "" {
		return Withdrawal{}, "", fmt.Errorf("callback is %w: it does not say to this merchant that a withdrawal waits", db.ErrInvalid)
	}
	n.EventID = ""
	row, err := o.newRow(0, n, now)
	if err != nil {
		return Withdrawal{}, "", err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		// The lock keeps an outcome from being recorded before this has been
		// queued.
		if w, err = findWithdrawal(ctx, t, readWithdrawalSQL+"{lock}", merchant, rest); err != nil || w.State != WithdrawalReleased {
			return err
		}
		row.CallBackID, row.TenantUserID, row.Address = w.CallBackID, w.TenantUserID, targetOf(w.Details)
		waits := audit.Waits{Withdrawal: audit.WithdrawalOf(merchant, w.CallBackID), Type: int(n.Type), Callback: joinID(merchant, row.id)}
		if err := audit.AddAbout(ctx, t, audit.WithdrawalWaits, id, now, waits); err != nil {
			return err
		}
		return o.insert(ctx, t, []newRow{row}, make([]Ingested, 1), now)
	})
	switch {
	case err != nil:
		return Withdrawal{}, "", err
	case w.State != WithdrawalReleased:
		return Withdrawal{}, "", &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + ": only a released one waits"}
	}
	return w, joinID(merchant, row.id), nil
}

func (o *Outbox) checkOutcome(merchant string, outcome Outcome, now db.Millis) (newRow, WithdrawalState, error) {
	state, want := WithdrawalExecuted, countersign.EffectExecuted
	if outcome.FailReason != "" {
		state, want = WithdrawalFailed, countersign.EffectEnded
	}
	switch {
	case (outcome.TxID == "") == (outcome.FailReason == ""):
		return newRow{}, "", fmt.Errorf("outcome is %w: want either txId or a reason", db.ErrInvalid)
	case outcome.Callback.Merchant != merchant || outcome.Callback.Type.Effect() != want:
		return newRow{}, "", fmt.Errorf("outcome is %w: its callback says something else or goes to another merchant", db.ErrInvalid)
	}
	if err := db.CheckTexts("permit", outcome.Permit, "txId", outcome.TxID, "reason", outcome.FailReason); err != nil {
		return newRow{}, "", err
	}
	row, err := o.newRow(0, outcome.Callback, now)
	return row, state, err
}
