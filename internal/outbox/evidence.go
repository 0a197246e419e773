package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"countersign"
	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
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

	// What judging it again needs; the log does not keep it.
	Blocks  []int          // how many bytes of ResponseOpened each block held
	Collect client.Collect // what the answer had to show
	Done    db.Millis      // when the response had come whole
	Signer  string         // public part of the merchant's key that signed it; empty: none had to
}

// Link are the signatures of an exchange as the audit log keeps them.
type Link = audit.Link

// recordRelease tells of a call that asked for a permit. One for a withdrawal without a
// permit changed nothing.
func recordRelease(ctx context.Context, t *db.Tx, p *Permit, holder Holder, now db.Millis) error {
	w := &p.Withdrawal
	if p.Permit == "" {
		return nil
	}
	r := audit.Released{Withdrawal: audit.WithdrawalOf(w.Merchant, w.CallBackID), Holder: audit.HolderOf(holder.Claim, holder.Origin), Permit: audit.Fingerprint(p.Permit), Details: audit.DetailsOf(w.Details)}
	kind := audit.WithdrawalReleased
	switch {
	case !w.heldBy(holder):
		held := audit.HolderOf(w.Claim, w.Origin)
		kind, r.Held = audit.WithdrawalClaimRefused, held
	case p.Duplicate:
		kind = audit.WithdrawalRepeated
	}
	return audit.AddAbout(ctx, t, kind, w.ID, now, r)
}

// item is an attempt as it is recorded. It is made again from the rows to prove it.
func (a *Attempt) item(merchant, callback string, typ countersign.Type, eventID, addedBy string, payload []byte, late bool, settled db.Millis) audit.Attempt {
	sum := sha256.Sum256(payload)
	return audit.Attempt{Merchant: merchant, Callback: callback, Type: int(typ), EventID: eventID, AddedBy: addedBy, Payload: hex.EncodeToString(sum[:]),
		Attempt: a.Number, RequestUUID: db.Clean(a.RequestUUID), Started: int64(a.Started), Settled: int64(settled), Node: db.Clean(a.Node),
		Status: a.HTTPStatus, ErrCode: a.ErrCode, Result: string(a.Result), Reason: string(a.Reason),
		RequestHash: hex.EncodeToString(unhex(a.RequestHash)), ResponseHash: hex.EncodeToString(unhex(a.ResponseHash)), Late: late, Repeated: a.Repeated}
}

// recordBatch adds the records of a batch of settlements: one for each exchange that
// is told of apart and each decision, and one for all other attempts.
func (o *Outbox) recordBatch(ctx context.Context, t *db.Tx, batch []*settling, now db.Millis) error {
	var list []audit.Item
	for _, b := range batch {
		if b.fresh {
			item := b.Attempt.item(b.Merchant, b.CallbackID, b.Type, b.EventID, b.AddedBy, b.Payload, !b.found, now)
			if b.Exchange == nil {
				list = append(list, audit.Item{At: now, Item: item})
			} else if err := audit.AddAbout(ctx, t, audit.WithdrawalAnswered, b.CallbackID, now, b.answered(item)); err != nil {
				return err
			}
		}
		if b.awaiting == 1 {
			d := audit.Decided{Merchant: b.Merchant, Decision: string(b.decided), Reason: string(b.Attempt.Reason), Attempt: b.Attempt.Number}
			switch b.decided {
			case countersign.DecisionConfirmed:
				d.Details = audit.DetailsOf(&b.Details)
			case countersign.DecisionExpired:
				d.Reason = string(client.ReasonDeadline)
			}
			if err := audit.AddAbout(ctx, t, audit.WithdrawalDecided, b.CallbackID, now, d); err != nil {
				return err
			}
		}
	}
	return audit.AddItems(ctx, t, audit.Record{Kind: audit.AttemptsSettled, At: now}, list)
}

func (b *settling) answered(item audit.Attempt) audit.Exchange {
	e := b.Exchange
	return audit.Exchange{Attempt: item, Version: e.Version, URL: e.URL, RequestKey: e.RequestKey, ResponseKey: e.ResponseKey,
		Request: e.Request, RequestOpened: e.RequestOpened, Message: e.Message, Response: e.Data, ResponseOpened: e.ResponseOpened,
		Link: e.Link, Details: audit.DetailsOf(&b.Details), AfterDecision: b.out.Late, Differs: b.out.Differs, Alarm: string(b.Alarm)}
}

const itemsOfSQL = `
SELECT c.type, c.event_id, c.added_by, c.payload, a.number, a.request_uuid, a.started, a.http_status, a.err_code, a.outcome, a.reason, a.node,
	a.request_hash, a.response_hash, a.late, a.settled
FROM attempts a JOIN callbacks c ON c.merchant = '' || a.merchant AND c.id = a.callback
WHERE a.merchant = $1 AND a.callback = $2 ORDER BY a.number`

// Subject is what the audit log has about a callback or a withdrawal, both of which
// have the same id.
func (o *Outbox) Subject(ctx context.Context, id string) (audit.Subject, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return audit.Subject{}, err
	}
	s := audit.Subject{IDs: []string{id}, Context: []string{merchant, audit.AboutFreezes, audit.AboutStarts}}
	var before []Attempt
	err = db.Each(ctx, o, itemsOfSQL, []any{merchant, rest}, func(r db.Rows) error {
		var a Attempt
		var typ countersign.Type
		var eventID, addedBy string
		var payload, request, response []byte
		var late int64
		var settled db.Millis
		err := r.Scan(&typ, &eventID, &addedBy, &payload, &a.Number, &a.RequestUUID, &a.Started, &a.HTTPStatus, &a.ErrCode, &a.Result, &a.Reason, &a.Node,
			&request, &response, &late, &settled)
		a.RequestHash, a.ResponseHash = hex.EncodeToString(request), hex.EncodeToString(response)
		a.Late, a.Repeated = late == 1, repeats(before)
		before = append(before, a)
		s.Items = append(s.Items, audit.Item{At: settled, Item: a.item(merchant, id, typ, eventID, addedBy, payload, late == 1, settled)})
		return err
	})
	return s, err
}

// recordResends tells of the callbacks of list that were made due.
func recordResends(ctx context.Context, t *db.Tx, kind string, list []swept, resent []int64, now db.Millis) error {
	r := audit.Record{Kind: kind, At: now}
	for i, f := range list {
		if resent[i] == 1 {
			r.About = append(r.About, joinID(f.merchant, f.id))
		}
	}
	return audit.Add(ctx, t, r)
}
