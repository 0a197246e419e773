package outbox

import (
	"context"
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
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
	return true, journal.AddAbout(ctx, t, journal.WithdrawalDecided, joinID(merchant, id), now, journal.Decided{Merchant: merchant, Decision: string(to), Reason: string(reason)})
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
	done, err := o.ReleaseMany(ctx, []ReleaseRequest{{ID: id, Holder: holder, Permit: permit}}, nil, now)
	if err != nil {
		return Permit{}, err
	}
	return done[0].Given, done[0].Err
}

// ReleaseRequest asks for the permit of one withdrawal. See Release.
type ReleaseRequest struct {
	ID     string
	Holder Holder
	Permit string // for a new one
}

// Released is what became of a ReleaseRequest.
type Released struct {
	Given Permit
	Err   error // why there is none; nil: there is one
}

// ReleaseMany is Release of several withdrawals in one transaction. Each has its own result, in
// the order of list, and is given or refused whatever becomes of the others; an error means that
// nothing was given. A withdrawal that list names again has the result ErrInvalid there. approved
// judges the approvals of a withdrawal that a person must approve before; nil: none is enough.
//
// Rows are locked in one order: withdrawals by merchant and id, then the feed of alarms, and the
// head of the audit log last.
func (o *Outbox) ReleaseMany(ctx context.Context, list []ReleaseRequest, approved Judge, now db.Millis) ([]Released, error) {
	done := make([]Released, len(list))
	batch, named := make([]*releasing, 0, len(list)), make(map[string]bool, len(list))
	for _, i := range sortedByID(len(list), func(i int) string { return list[i].ID }) {
		r, err := newReleasing(&list[i], now)
		if err == nil && named[r.ID] {
			err = errNamedAgain
		}
		if done[i].Err = err; err == nil {
			named[r.ID], r.out = true, &done[i]
			batch = append(batch, r)
		}
	}
	if len(batch) == 0 {
		return done, nil
	}
	// Before the transaction: RSA must not hold its locks.
	if err := o.judgeAgain(ctx, batch); err != nil {
		return nil, err
	}
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		for _, r := range batch {
			r.releasingNow = releasingNow{}
		}
		return o.release(ctx, t, batch, approved)
	})
	if err != nil {
		return nil, err
	}
	for _, r := range batch {
		if r.spent.Until != 0 {
			o.given.add(r.spent)
		}
		r.out.Given, r.out.Err = r.result()
	}
	return done, nil
}

// errNamedAgain is the result of an item of a list that names the withdrawal of an earlier one.
var errNamedAgain = fmt.Errorf("the withdrawal is %w: the list names it before", db.ErrInvalid)

// releasing is one ReleaseRequest while it is worked on.
type releasing struct {
	*ReleaseRequest
	merchant, rest string
	answer         *judged
	now            db.Millis
	out            *Released
	releasingNow
}

// releasingNow is what a try of the transaction finds and does.
type releasingNow struct {
	p       Permit
	kept    keptEvidence
	found   bool
	stop    client.Reason
	limits  client.AmountLimits
	differs bool
	awaits  string // why a person must approve it first
	gives   bool   // the guarded statement runs for it
	gave    int64
	err     error // why it cannot be known whether a permit may be given
	epoch   int64
	spent   GivenPermit // to be remembered, if a permit was given
}

func newReleasing(n *ReleaseRequest, now db.Millis) (*releasing, error) {
	merchant, rest, err := splitID(n.ID)
	if err != nil {
		return nil, err
	}
	if n.Holder.Claim == "" || n.Holder.Origin == "" || n.Permit == "" {
		return nil, fmt.Errorf("claim, origin or permit is %w: it is empty", db.ErrInvalid)
	}
	if err := db.CheckTexts("claim", n.Holder.Claim, "origin", n.Holder.Origin, "permit", n.Permit); err != nil {
		return nil, err
	}
	return &releasing{ReleaseRequest: n, merchant: merchant, rest: rest, now: now}, nil
}

// result is the answer to r after the commit.
func (r *releasing) result() (Permit, error) {
	w := &r.p.Withdrawal
	switch {
	case r.err != nil:
		return Permit{}, r.err
	case !r.found:
		return Permit{}, db.ErrNotFound
	case r.awaits != "":
		return Permit{}, &db.ConflictError{Code: client.CodeAwaitingApproval, Reason: "the amount is above the merchant's approveAbove, and a person must approve the withdrawal (withdrawals approve): " + r.awaits}
	case r.differs:
		return Permit{}, &db.ConflictError{Reason: differText}
	case r.p.Permit != "" && !w.heldBy(r.Holder):
		return Permit{}, &db.ConflictError{Member: "claim", Reason: "differs: another holder has the permit"}
	case r.p.Permit == "" && w.State != WithdrawalConfirmed:
		return Permit{}, &db.ConflictError{Reason: "the withdrawal is " + string(w.State)}
	case r.stop != "":
		return Permit{}, &db.ConflictError{Reason: stopTexts[r.stop]}
	case r.p.Permit == "":
		return Permit{}, &db.ConflictError{Reason: "the withdrawal is " + string(WithdrawalLapsed)} // the sweep will make it so
	}
	r.p.Epoch = r.epoch
	return r.p, nil
}

// release is ReleaseMany in its transaction. Each row is locked before its evidence is read, so
// both are of one moment.
func (o *Outbox) release(ctx context.Context, t *db.Tx, batch []*releasing, approved Judge) error {
	var merchants []string
	for _, r := range batch {
		if len(merchants) == 0 || merchants[len(merchants)-1] != r.merchant {
			merchants = append(merchants, r.merchant)
		}
	}
	look, err := o.lookAt(ctx, t, merchants)
	if err != nil {
		return err
	}
	reads := make([]db.Statement, 0, 2*len(batch))
	for _, r := range batch {
		r.epoch = look.epoch
		if r.stop, r.limits, err = look.of(r.merchant); err != nil {
			return err
		}
		reads = append(reads, r.read(), r.kept.read(t, r.merchant, r.rest))
	}
	if err := t.Batch(ctx, reads); err != nil {
		return err
	}
	var gives []db.Statement
	for _, r := range batch {
		if err := o.weigh(ctx, t, r, approved); err != nil {
			return err
		}
		if r.gives {
			gives = append(gives, db.Statement{SQL: releaseSQL, N: &r.gave,
				Args: []any{r.merchant, r.rest, r.Holder.Claim, r.Holder.Origin, r.Permit, int64(r.now)}})
		}
	}
	if err := t.Batch(ctx, gives); err != nil {
		return err
	}
	var keeps []db.Statement
	var alarms []db.Alarm
	gave := int64(0)
	for _, r := range batch {
		more, alarm, err := o.conclude(ctx, t, r)
		if err != nil {
			return err
		}
		gave += r.gave
		keeps = append(keeps, more...)
		if alarm != "" {
			alarms = append(alarms, db.Alarm{Of: r.merchant, Kind: alarm, Subject: r.ID, At: r.now})
		}
	}
	if gave > 0 {
		keeps = countMoved(t, keeps, WithdrawalConfirmed, WithdrawalReleased, gave)
	}
	if err := t.Batch(ctx, keeps); err != nil {
		return err
	}
	return db.RaiseAlarms(ctx, t, alarms)
}

// read is the statement that locks and reads the withdrawal.
func (r *releasing) read() db.Statement {
	return db.Statement{SQL: readPermitSQL, Args: []any{r.merchant, r.rest}, Row: func(rows db.Rows) (err error) {
		r.found = true
		r.p.Withdrawal, err = scanWithdrawal(rows, &r.p.Permit)
		return err
	}}
}

// weigh says whether r gets a permit, or its own again. Where that cannot be known now, nothing
// is done for it.
func (o *Outbox) weigh(ctx context.Context, t *db.Tx, r *releasing, approved Judge) (err error) {
	if !r.found {
		return nil
	}
	p, w := &r.p, &r.p.Withdrawal
	if r.stop == "" && w.Restored {
		r.stop = client.ReasonRestored
	}
	if r.differs = o.differs(p, &r.kept, r.epoch, r.answer, r.stop, r.now); r.differs {
		if r.answer != nil && errors.Is(r.answer.err, ErrNotJudged) { // it says nothing of the row
			r.err = r.answer.err
		}
		return nil
	}
	p.Duplicate = true
	if p.Permit == "" && w.State == WithdrawalConfirmed && w.ReleaseBy > r.now && r.stop == "" {
		r.awaits, err = awaitsPerson(ctx, t, w, r.limits, approved)
		r.gives = err == nil && r.awaits == ""
	}
	return err
}

// conclude records what became of r, after the guarded statement ran, and gives what is kept of
// it and the alarm that it raises.
func (o *Outbox) conclude(ctx context.Context, t *db.Tx, r *releasing) (keeps []db.Statement, alarm client.AlarmKind, err error) {
	p, w := &r.p, &r.p.Withdrawal
	switch {
	case !r.found, r.err != nil, r.awaits != "":
		return nil, "", nil
	case r.differs:
		return nil, client.AlarmEvidenceDiffers, nil
	case r.gives && r.gave == 0: // a stop that began after it was looked at
		r.stop = client.ReasonPaused
	case r.gives:
		g := r.kept.givenTo(r.Holder, r.Permit, r.now)
		keep, err := keepGiven(t, r.merchant, r.rest, g)
		if err != nil {
			return nil, "", err
		}
		keeps = append(keeps, keep)
		w.State, w.Claim, w.Origin, w.Released = WithdrawalReleased, r.Holder.Claim, r.Holder.Origin, r.now
		p.Permit, p.Duplicate = r.Permit, false
		r.spent = GivenPermit{permitKey(w.Merchant, w.CallBackID, r.kept.epoch), g.Until}
	}
	foreign := p.Permit != "" && !w.heldBy(r.Holder)
	if r.stop == "" || foreign { // a stop gives no permit again
		if err := recordRelease(ctx, t, p, r.Holder, r.now); err != nil {
			return nil, "", err
		}
	}
	if foreign {
		return nil, client.AlarmForeignClaim, nil
	}
	if p.Permit != "" && w.Origin == "" && r.stop == "" {
		w.Origin = r.Holder.Origin
		r.kept.given.Origin = r.Holder.Origin
		keep, err := keepGiven(t, r.merchant, r.rest, *r.kept.given)
		if err != nil {
			return nil, "", err
		}
		keeps = append(keeps, db.Statement{SQL: takeOriginSQL, Args: []any{r.merchant, r.rest, r.Holder.Origin}}, keep)
	}
	return keeps, "", nil
}

// stopLook is a look at all that stops releases.
type stopLook struct {
	merchants map[string]*keptMerchant
	frozen    Freeze
	epoch     int64 // the present one
	open      bool  // it is not reconciled
}

// lookAt looks at what stops the releases of merchants, before anything else in a transaction.
func (o *Outbox) lookAt(ctx context.Context, t *db.Tx, merchants []string) (stopLook, error) {
	l := stopLook{merchants: map[string]*keptMerchant{}}
	var epochs db.LookAtEpochs
	var look freezeLook
	err := t.Batch(ctx, append(o.lookAtStops(nil), ofMerchants(t, o.Dialect(), merchants, l.merchants), look.statement(t), epochs.Statement(t)))
	if err != nil {
		return l, err
	}
	l.frozen, l.epoch, l.open = o.freezes.judge(t, &look), epochs.Last().Number, epochs.Last().Open()
	return l, nil
}

// of gives why nothing of a merchant is released; empty: nothing stops it.
func (l *stopLook) of(merchant string) (stop client.Reason, limits client.AmountLimits, err error) {
	state := MerchantPaused
	if m := l.merchants[merchant]; m != nil {
		state = m.State
		if limits, err = m.approveAbove(); err != nil {
			return "", nil, err
		}
	}
	if stop = stopped(state, l.frozen); stop == "" && l.open {
		stop = client.ReasonRestored
	}
	return stop, limits, nil
}

// stopTexts tell callers why no permit is given at the moment.
var stopTexts = map[client.Reason]string{
	client.ReasonFrozen:   "the service is frozen: nothing is released until it is thawed",
	client.ReasonPaused:   "the merchant is paused: nothing of it is released until it is resumed",
	client.ReasonRestored: "this may have been released before a restore: nothing becomes of it until the restore is reconciled and the core or a person has said that nothing became of it",
}
