package outbox

import (
	"context"
	"encoding/hex"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// recordRelease records a call that asked for a permit. It records nothing for a withdrawal without a permit, because
// such a call changed nothing.
func recordRelease(ctx context.Context, t *db.Tx, p *Permit, holder Holder, now db.Millis) error {
	w := &p.Withdrawal
	if p.Permit == "" {
		return nil
	}
	r := journal.Withdrawal{Merchant: w.Merchant, CallBackID: w.CallBackID,
		Holder: journal.HolderOf(holder.Claim, holder.Origin), Permit: journal.Fingerprint(p.Permit), Details: w.Details}
	kind := journal.WithdrawalReleased
	switch {
	case !w.heldBy(holder):
		kind, r.Held = journal.WithdrawalClaimRefused, journal.HolderOf(w.Holder, w.Origin)
	case p.Duplicate:
		kind = journal.WithdrawalRepeated
	}
	return journal.AddAbout(ctx, t, kind, w.ID, now, r)
}

// recordBatch adds the records of a batch of settlements: one for each decision, one for each exchange that is
// recorded by itself, and one for all other attempts together.
func (o *Outbox) recordBatch(ctx context.Context, t *db.Tx, batch []*settling, now db.Millis) error {
	others := 0
	for _, b := range batch {
		if b.fresh {
			if b.Exchange == nil {
				others++
			} else if err := journal.AddAbout(ctx, t, journal.WithdrawalAnswered, b.CallbackID, now,
				b.answered(now)); err != nil {
				return err
			}
		}
		if b.awaiting == 1 {
			d := journal.Withdrawal{Merchant: b.Merchant, Decision: string(b.decided), Reason: string(b.Attempt.Reason),
				Attempt: b.Attempt.Number}
			switch b.decided {
			case countersign.DecisionConfirmed:
				d.Details = journal.DetailsOf(&b.Details)
			case countersign.DecisionExpired:
				d.Reason = string(client.ReasonDeadline)
			}
			if err := journal.AddAbout(ctx, t, journal.WithdrawalDecided, b.CallbackID, now, d); err != nil {
				return err
			}
		}
	}
	return journal.AddCount(ctx, t, journal.AttemptsSettled, now, others)
}

// answered returns the record of an exchange that is being settled.
func (b *settling) answered(now db.Millis) journal.Exchange {
	a, e := &b.Attempt, b.Exchange.Exchange
	e.Merchant, e.Callback = b.Merchant, b.CallbackID
	e.Attempt, e.RequestUUID, e.Started, e.Settled, e.Node = a.Number, db.Clean(a.RequestUUID), int64(a.Started),
		int64(now), db.Clean(a.Node)
	e.Status, e.ErrCode, e.Result, e.Reason, e.Late, e.Repeated = a.HTTPStatus, a.ErrCode, string(a.Result),
		string(a.Reason), b.found == 0, a.Repeated
	e.RequestHash, e.ResponseHash = hex.EncodeToString(unhex(a.RequestHash)), hex.EncodeToString(unhex(a.ResponseHash))
	e.Details, e.AfterDecision, e.Differs, e.Alarm = journal.DetailsOf(&b.Details), b.out.Late, b.out.Differs,
		string(b.Alarm)
	return e
}

// recordResends records that the callbacks of list were made due.
func recordResends(ctx context.Context, t *db.Tx, kind string, list []swept, now db.Millis) error {
	r := journal.Record{Kind: kind, At: now}
	for _, f := range list {
		r.About = append(r.About, f.callback())
	}
	return journal.Add(ctx, t, r)
}
