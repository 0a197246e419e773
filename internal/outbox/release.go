package outbox

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
)

const releaseSQL = `
UPDATE withdrawals SET state = 'released', claim = $3, origin = $4, permit = $5, released = $6
WHERE merchant = $1 AND id = $2 AND state = 'confirmed' AND release_by > $6 AND restored = 0
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)
	AND EXISTS (SELECT 1 FROM merchants m WHERE m.id = $1 AND m.state = 'active')`

// A permit that was issued before a restore belongs to the first origin that repeats its claim.
const takeOriginSQL = `UPDATE withdrawals SET origin = $3 WHERE merchant = $1 AND id = $2 AND origin = ''`

// readPermitSQL locks the row, so that a failover cannot lose a permit that is returned again, and so that only one
// of two calls issues it.
const readPermitSQL = `SELECT w.permit, ` + withdrawalColumns +
	` FROM withdrawals w WHERE w.merchant = $1 AND w.id = $2{lock}`

// ReleaseRequest asks for the permit of one withdrawal.
type ReleaseRequest struct {
	ID     string
	Holder Holder
	Permit string // used if a new permit is issued
}

// Released is the result of a ReleaseRequest.
type Released struct {
	Issued Permit
	Err    error // why there is no permit; nil: there is one
}

// ReleaseMany issues the permits of confirmed withdrawals to their holders, one for each withdrawal (PROTOCOL.md,
// D6). The same holder gets the same permit again as a duplicate, whatever the Permit of the request, even after the
// outcome. Any other holder gets a *ConflictError for ever and raises AlarmWalletDiffers. A withdrawal without a
// permit is not released at its ReleaseBy or later. Nobody gets a permit, not even its holder, while the merchant is
// paused, the service is frozen or a restored database is not reconciled. All of these are *ConflictErrors.
//
// If a merchant signs its answers, it must have signed this one. No permit is issued if the stored answer does not
// confirm the row's details under a key that the merchant has now; AlarmEvidenceDiffers is raised (PROTOCOL.md, D9).
// The same holds for a permit that was issued before according to the row, except that the key that verified the
// answer counts too. An answer from before the merchant had a key needs no signature.
//
// A withdrawal above the merchant's ApproveAbove that nobody has approved gets a *ConflictError with the code
// awaiting_approval. approved judges the approvals of a withdrawal that needs them; if it is nil, none suffice.
//
// Everything is done in one transaction. Each item has its own result, in the order of list, and is released or
// refused whatever happens to the others. If ReleaseMany returns an error, no permit was issued. list names each
// withdrawal once.
//
// Rows are locked in one order: withdrawals by merchant and id, then the feed of alarms, then the head of the
// journal.
func (o *Outbox) ReleaseMany(ctx context.Context, list []ReleaseRequest, approved Judge,
	now db.Millis) ([]Released, error) {
	var done []Released
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		done = make([]Released, len(list))
		var batch []*releasing
		for _, i := range sortedByID(len(list), func(i int) string { return list[i].ID }) {
			r, err := newReleasing(list[i], &done[i])
			if done[i].Err = err; err == nil {
				batch = append(batch, r)
			}
		}
		return o.release(ctx, t, batch, approved, now)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// releasing is a ReleaseRequest with what was read for it.
type releasing struct {
	ReleaseRequest
	merchant, rest string
	found          bool
	key, answer    []byte // a row of answers
	updated        int64  // 1: the guarded statement issued the permit
	*Released
}

func newReleasing(n ReleaseRequest, out *Released) (*releasing, error) {
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
	return &releasing{ReleaseRequest: n, merchant: merchant, rest: rest, Released: out}, nil
}

// release does the work of ReleaseMany in its transaction. It locks each row before it checks it, so the guarded
// statement sees the row that refuse checked.
func (o *Outbox) release(ctx context.Context, t *db.Tx, batch []*releasing, approved Judge, now db.Millis) error {
	var merchants []string
	reads := make([]db.Statement, 0, 2*len(batch))
	for _, r := range batch {
		if len(merchants) == 0 || merchants[len(merchants)-1] != r.merchant {
			merchants = append(merchants, r.merchant)
		}
		reads = append(reads, r.read(), db.Statement{SQL: readAnswerSQL, Args: []any{r.ID},
			Row: func(row db.Rows) error { return row.Scan(&r.key, &r.answer) }})
	}
	var epochs db.Epochs
	look, looks := o.lookAt(merchants)
	if err := t.Batch(ctx, append(append(looks, epochs.Query()), reads...)); err != nil {
		return err
	}
	var updates, keeps []db.Statement
	var alarms []client.Alarm
	for _, r := range batch {
		alarm, err := o.refuse(ctx, t, r, look, epochs.Last(), approved, now)
		if err != nil {
			return err
		}
		if alarm != "" {
			a := client.Alarm{Merchant: r.merchant, Kind: alarm, Subject: r.ID, First: now}
			if alarm == client.AlarmWalletDiffers {
				a.Subject += foreignClaim
			}
			alarms = append(alarms, a)
		}
		if r.Err == nil && r.Issued.Permit == "" {
			updates = append(updates, db.Statement{SQL: releaseSQL, N: &r.updated,
				Args: []any{r.merchant, r.rest, r.Holder.Claim, r.Holder.Origin, r.Permit, int64(now)}})
		}
	}
	if err := t.Batch(ctx, updates); err != nil {
		return err
	}
	for _, r := range batch {
		p, w := &r.Issued, &r.Issued.Withdrawal
		switch {
		case r.Err == nil && p.Permit != "":
			p.Duplicate = true
			if w.Origin == "" {
				w.Origin = r.Holder.Origin
				keeps = append(keeps, db.Statement{SQL: takeOriginSQL, Args: []any{r.merchant, r.rest, r.Holder.Origin}})
			}
		case r.Err == nil && r.updated == 0:
			r.Err = &db.ConflictError{Reason: stopTexts[client.ReasonPaused]}
		case r.Err == nil:
			countMoved(t, client.WithdrawalConfirmed, client.WithdrawalReleased)
			p.Permit, p.Duplicate = r.Permit, false
			w.State, w.Holder, w.Origin, w.Released = client.WithdrawalReleased, r.Holder.Claim, r.Holder.Origin, now
		}
		if r.Err == nil || p.Permit != "" && !w.heldBy(r.Holder) {
			if err := recordRelease(ctx, t, p, r.Holder, now); err != nil {
				return err
			}
		}
		if r.Err != nil {
			r.Issued = Permit{}
		}
	}
	if err := t.Batch(ctx, keeps); err != nil {
		return err
	}
	return db.RaiseAlarms(ctx, t, alarms)
}

// read returns the statement that locks and reads the withdrawal.
func (r *releasing) read() db.Statement {
	return db.Statement{SQL: readPermitSQL, Args: []any{r.merchant, r.rest}, Row: func(rows db.Rows) (err error) {
		r.found = true
		r.Issued.Withdrawal, err = scanWithdrawal(rows, &r.Issued.Permit)
		return err
	}}
}

// refuse sets r.Err if r gets no permit, and returns the alarm to raise.
func (o *Outbox) refuse(ctx context.Context, t *db.Tx, r *releasing, look *stopLook, epoch db.Epoch, approved Judge,
	now db.Millis) (alarm client.AlarmKind, err error) {
	p, w := &r.Issued, &r.Issued.Withdrawal
	if !r.found {
		r.Err = db.ErrNotFound
		return "", nil
	}
	stop, m := look.of(r.merchant)
	if stop == "" && (w.Restored || epoch.Open()) {
		stop = client.ReasonRestored
	}
	answerKeys, err := envelope.ParseSigningKeys(m.AnswerKey) // nil: the merchant does not sign its answers
	if err != nil {
		return "", fmt.Errorf("answerKey of merchant %s: %w", r.merchant, err)
	}
	kept := o.openEvidence(r.ID, r.key, r.answer)
	p.Epoch, p.Answer = epoch.Number, kept.Answer
	switch {
	case p.Permit != "" && !w.heldBy(r.Holder):
		r.Err = &db.ConflictError{Member: "claim", Reason: "differs: another holder has the permit"}
		return client.AlarmWalletDiffers, nil
	case p.Permit == "" && w.State != client.WithdrawalConfirmed:
		r.Err = &db.ConflictError{Reason: "the withdrawal is " + string(w.State)}
		return "", nil
	case stop != "":
		r.Err = &db.ConflictError{Reason: stopTexts[stop]}
		return "", nil
	case p.Permit == "" && w.ReleaseBy <= now: // the sweep will make it lapse
		r.Err = &db.ConflictError{Reason: "the withdrawal is " + string(client.WithdrawalLapsed)}
		return "", nil
	case answerKeys != nil && !kept.bears(w, p.Permit != "", answerKeys):
		// Checked before a permit is repeated, because the row may falsely say that it was issued.
		r.Err = &db.ConflictError{Reason: unsignedText}
		if p.Permit != "" {
			r.Err = &db.ConflictError{Reason: unsignedAgainText}
		}
		return client.AlarmEvidenceDiffers, nil
	case p.Permit != "":
		return "", nil
	}
	awaits, err := awaitsPerson(ctx, t, w, m.ApproveAbove, approved)
	if awaits != "" {
		r.Err = &db.ConflictError{Code: client.CodeAwaitingApproval,
			Reason: "the amount is above the merchant's approveAbove, and a person must approve the withdrawal (tasks list kind=release): " + awaits}
	}
	return "", err
}

// The suffixes of the subjects of AlarmWalletDiffers. They say what the wallet did.
const (
	foreignClaim   = " foreign_claim"
	outcomeDiffers = " outcome_differs"
)

// unsignedText and unsignedAgainText say to callers why there is no permit.
const (
	unsignedWhy       = "the merchant signs its answers, and no answer is kept that its answerKey signed and that confirms these details (alarm " + string(client.AlarmEvidenceDiffers) + "): "
	unsignedText      = unsignedWhy + "if the merchant has replaced its key, put the earlier one back beside the new one; otherwise block the withdrawal, and have a new one ordered if it is still wanted"
	unsignedAgainText = unsignedWhy + "the permit is not given again; execute nothing, and find out on the chain whether this claim has moved the funds"
)

// stopLook holds what can stop decisions and releases.
type stopLook struct {
	merchants map[string]Merchant
	frozen    client.Freeze
}

// lookAt returns the statements that read what can stop the decisions and releases of merchants. They must come first
// in a transaction.
func (o *Outbox) lookAt(merchants []string) (*stopLook, []db.Statement) {
	l := &stopLook{merchants: map[string]Merchant{}}
	var lock []db.Statement
	if o.Dialect().ConcurrentWriters {
		lock = []db.Statement{{SQL: lookAtStopsSQL}}
	}
	return l, append(lock, ofMerchants(o.Dialect(), merchants, l.merchants), freezeStatement(&l.frozen))
}

// of returns the merchant without its secrets, and why nothing of it is decided or released. stop is "" if nothing stops
// it.
func (l *stopLook) of(merchant string) (stop client.Reason, m Merchant) {
	m = l.merchants[merchant]
	switch {
	case l.frozen.At != 0:
		stop = client.ReasonFrozen
	case m.State != client.MerchantActive:
		stop = client.ReasonPaused
	}
	return stop, m
}
