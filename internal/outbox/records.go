package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Exchange is what the audit log keeps of an attempt of type 2 whose response was an
// answer or made a decision.
type Exchange struct {
	Version        int64  // of the merchant
	URL            string // that was called
	RequestKey     string // fingerprints of the keys
	ResponseKey    string
	Request        string // the body that was sent
	RequestOpened  string // what was sealed in it
	Message        string // of the response; none of these without one
	Data           string // the sealed answer
	ResponseOpened string // what it opened to, if that was an answer
	Link           *Link  // the signatures; nil: none was demanded

	// Of a response that a key of the merchant signed and that confirms, the answer and that key's
	// public part; the log does not keep them.
	Signed   *client.SignedAnswer
	SignedBy string
}

// Link are the signatures of an exchange as the audit log keeps them.
type Link = journal.Link

// recordRelease tells of a call that asked for a permit. One for a withdrawal without a
// permit changed nothing.
func recordRelease(ctx context.Context, t *db.Tx, p *Permit, holder Holder, now db.Millis) error {
	w := &p.Withdrawal
	if p.Permit == "" {
		return nil
	}
	r := journal.Withdrawal{Merchant: w.Merchant, CallBackID: w.CallBackID, Holder: journal.HolderOf(holder.Claim, holder.Origin), Permit: journal.Fingerprint(p.Permit), Details: w.Details}
	kind := journal.WithdrawalReleased
	switch {
	case !w.heldBy(holder):
		kind, r.Held = journal.WithdrawalClaimRefused, journal.HolderOf(w.Holder, w.Origin)
	case p.Duplicate:
		kind = journal.WithdrawalRepeated
	}
	return journal.AddAbout(ctx, t, kind, w.ID, now, r)
}

// recordBatch adds the records of a batch of settlements: one for each exchange that
// is told of apart and each decision, and one for all other attempts.
func (o *Outbox) recordBatch(ctx context.Context, t *db.Tx, batch []*settling, now db.Millis) error {
	others := 0
	for _, b := range batch {
		if b.fresh {
			if b.Exchange == nil {
				others++
			} else if err := journal.AddAbout(ctx, t, journal.WithdrawalAnswered, b.CallbackID, now, b.answered(now)); err != nil {
				return err
			}
		}
		if b.awaiting == 1 {
			d := journal.Withdrawal{Merchant: b.Merchant, Decision: string(b.decided), Reason: string(b.Attempt.Reason), Attempt: b.Attempt.Number}
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

// answered is what is recorded of an exchange that was settled now.
func (b *settling) answered(now db.Millis) journal.Exchange {
	a, e, sum := &b.Attempt, b.Exchange, sha256.Sum256(b.Payload)
	return journal.Exchange{Merchant: b.Merchant, Callback: b.CallbackID, Type: int(b.Type), EventID: b.EventID, AddedBy: b.AddedBy, Payload: hex.EncodeToString(sum[:]),
		Attempt: a.Number, RequestUUID: db.Clean(a.RequestUUID), Started: int64(a.Started), Settled: int64(now), Node: db.Clean(a.Node),
		Status: a.HTTPStatus, ErrCode: a.ErrCode, Result: string(a.Result), Reason: string(a.Reason),
		RequestHash: hex.EncodeToString(unhex(a.RequestHash)), ResponseHash: hex.EncodeToString(unhex(a.ResponseHash)), Late: !b.found, Repeated: a.Repeated,
		Version: e.Version, URL: e.URL, RequestKey: e.RequestKey, ResponseKey: e.ResponseKey,
		Request: e.Request, RequestOpened: e.RequestOpened, Message: e.Message, Response: e.Data, ResponseOpened: e.ResponseOpened,
		Link: e.Link, Details: journal.DetailsOf(&b.Details), AfterDecision: b.out.Late, Differs: b.out.Differs, Alarm: string(b.Alarm)}
}

// recordResends tells of the callbacks of list that were made due.
func recordResends(ctx context.Context, t *db.Tx, kind string, list []swept, resent []int64, now db.Millis) error {
	r := journal.Record{Kind: kind, At: now}
	for i, f := range list {
		if resent[i] == 1 {
			r.About = append(r.About, joinID(f.merchant, f.id))
		}
	}
	return journal.Add(ctx, t, r)
}
