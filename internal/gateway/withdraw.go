package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
	"countersign/merchant"
)

// The names under which the gateway decides without a person.
const (
	byPolicy = "policy"
	byCheck  = "countersign" // the comparison of the question with the order
	byVerify = "verify"      // the merchant's own check of a deposit
)

// decideTries bounds how often a decision starts again because the order changed or others used up a limit.
const decideTries = 10

// onWithdrawal answers the service's question. It confirms only an order of the book that has the same user, is not
// declined, cancelled or expired, and that the policy allows. The order moves to confirmed before the answer is kept
// and sent; from then on it can be neither cancelled nor changed. If the process dies in between, the next question
// finds it confirmed and gets the same details.
func (g *Gateway) onWithdrawal(ctx context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
	for range decideTries {
		a, err := g.decide(ctx, w)
		if !errors.Is(err, book.ErrChanged) {
			return a, err
		}
	}
	return merchant.Answer{}, fmt.Errorf("deciding on an order: %w, %d times in a row", book.ErrChanged, decideTries)
}

// decide tries once to decide.
func (g *Gateway) decide(ctx context.Context, w countersign.WithdrawalRequest) (merchant.Answer, error) {
	now := g.c.Now()
	at := db.MillisOf(now)
	asked, err := g.book.AskedFor(ctx, w.CallBackID, at)
	if err != nil {
		return merchant.Answer{}, err
	}
	f := judge(asked, w, at, g.c.Grace)
	if f.rule {
		if f, err = g.rule(ctx, asked.Order, w, now); err != nil {
			return merchant.Answer{}, err
		}
	}
	switch {
	case f.unknown:
		err = g.book.RefuseUnknown(ctx, w.CallBackID, w.TenantUserID, at)
	case f.again:
		err = g.book.RaiseAlarm(ctx, client.Alarm{Kind: client.AlarmEndedAgain, Subject: w.CallBackID, First: at})
	case f.change != nil:
		f.change.Clock = func() db.Millis { return db.MillisOf(g.c.Now()) }
		_, err = g.book.ChangeOrder(ctx, *f.change, at)
	}
	return f.answer, err
}

// onAnswer records an answer before it is sent.
func (g *Gateway) onAnswer(ctx context.Context, e merchant.Exchange) error {
	return g.book.RecordAnswer(ctx, e, db.MillisOf(g.c.Now()))
}

// heldPoll is how often an exchange looks up the order that it waits for. Changes on this node always wake it, changes
// on others mostly.
const heldPoll = time.Second

// onHeld returns when the order is known and no longer awaits a person, or when ctx ends.
func (g *Gateway) onHeld(ctx context.Context, w countersign.WithdrawalRequest) {
	orders, stopOrders := g.book.Watch(book.TopicOrders)
	defer stopOrders()
	events, stopEvents := g.book.Watch(book.TopicEvents)
	defer stopEvents()
	poll := time.NewTicker(heldPoll)
	defer poll.Stop()
	for {
		asked, err := g.book.AskedFor(ctx, w.CallBackID, db.MillisOf(g.c.Now()))
		if err == nil && asked.Known && asked.Order.State != client.OrderHeld {
			return
		}
		select {
		case <-orders:
		case <-events:
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// finding is the result of judging a question: an answer, and what must be done before it may be given.
type finding struct {
	answer  merchant.Answer
	rule    bool              // the policy has to decide first
	unknown bool              // record that the order was unknown
	again   bool              // raise the alarm: the service asks about an order that was confirmed and has ended
	change  *book.OrderChange // nil: the order stays as it is
}

// judge compares a question with its order. It does no I/O.
func judge(a book.Asked, w countersign.WithdrawalRequest, now db.Millis, grace time.Duration) finding {
	o := a.Order
	switch {
	case (a.Restored || o.Restored) && (!a.Known || o.State.Undecided() || o.State == client.OrderConfirmed):
		// It may have ended since the backup, and what the limits allow is not known.
		return finding{answer: merchant.Hold(countersign.CodeNotKnownYet, "")}
	case !a.Known && now-a.Since < db.Millis(grace.Milliseconds()):
		return finding{answer: merchant.Hold(countersign.CodeNotKnownYet, "")}
	case !a.Known:
		return finding{answer: merchant.Refuse(countersign.CodeUnknownOrder, ""), unknown: true}
	case o.State == client.OrderUnknown:
		return finding{answer: merchant.Refuse(countersign.CodeUnknownOrder, "")}
	case w.TenantUserID != "" && o.TenantUserID != w.TenantUserID:
		f := finding{answer: merchant.Refuse(countersign.CodeDetailsDiffer, "")}
		if o.State.Undecided() {
			// The refusal is final for this callBackId, so the order must end.
			f.change = &book.OrderChange{CallBackID: o.CallBackID, From: o.State, To: client.OrderDeclined, By: byCheck,
				Reason: "the service asked about it with another tenantUserId", OtherUser: true}
		}
		return f
	case o.State == client.OrderConfirmed:
		return finding{answer: merchant.Confirm(o.TenantUserID, o.Details())}
	case o.State == client.OrderDeclined:
		return finding{answer: merchant.Refuse(declinedCode(o), "")}
	case !o.State.Undecided(): // cancelled, expired, ended or executed
		return finding{answer: merchant.Refuse(countersign.CodeOrderCancelled, ""), again: o.Confirmed > 0}
	case o.Expired(now):
		return finding{answer: merchant.Refuse(countersign.CodeOrderCancelled, ""),
			change: &book.OrderChange{CallBackID: o.CallBackID, From: o.State, To: client.OrderExpired}}
	}
	return finding{rule: true}
}

func declinedCode(o book.Order) countersign.ErrCode {
	switch o.DecidedBy {
	case byPolicy:
		return countersign.CodeRefusedPolicy
	case byCheck:
		return countersign.CodeDetailsDiffer
	}
	return countersign.CodeRefusedPerson
}

// rule asks the policy about an order that agrees with the question. The limits of the ruling become conditions of the
// change, so that two orders decided at the same time cannot exceed a limit together.
func (g *Gateway) rule(ctx context.Context, o book.Order, w countersign.WithdrawalRequest,
	now time.Time) (finding, error) {
	ruling, err := g.c.decides(ctx, policy.Request{Order: o.Order, User: w.TenantUserID, Now: now, Spent: spentOf(g.book)})
	if err != nil {
		return finding{}, fmt.Errorf("policy: %w", err)
	}
	if ruling.Effect != policy.Ask {
		return ruled(o, ruling), nil
	}
	// An approval counts only while its token is valid, and what was too few approvals may suffice by now.
	agreed, err := orderAgreed(ctx, g.book, g.book, g.c.Policy, o, ruling, db.MillisOf(now))
	if err != nil || !agreed.Enough() {
		return asks(o, ruling), err
	}
	f := confirms(o, ruling)
	if o.State != client.OrderApproved {
		f.change.By = agreed.Approvals[len(agreed.Approvals)-1].Token
	}
	f.change.Check = func(ctx context.Context, q db.Querier) error {
		agreed, err := orderAgreed(ctx, q, g.book, g.c.Policy, o, ruling, db.MillisOf(g.c.Now()))
		if err == nil && !agreed.Enough() {
			err = fmt.Errorf("%w: an approval has lost its token", book.ErrChanged)
		}
		return err
	}
	return f, nil
}

// ruled turns a Ruling that asks nobody into a finding. Any Effect but Allow denies.
func ruled(o book.Order, r policy.Ruling) finding {
	if r.Effect == policy.Allow {
		return confirms(o, r)
	}
	change := changeOf(o, r)
	change.To, change.By = client.OrderDeclined, byPolicy
	return finding{answer: merchant.Refuse(countersign.CodeRefusedPolicy, ""), change: change}
}

func confirms(o book.Order, r policy.Ruling) finding {
	change := changeOf(o, r)
	change.To, change.Ceilings = client.OrderConfirmed, r.Limits
	if o.State == client.OrderApproved && o.Reason != "" {
		change.Reason = o.Reason // the person's, not the policy's
	}
	return finding{answer: merchant.Confirm(o.TenantUserID, o.Details()), change: change}
}

func changeOf(o book.Order, r policy.Ruling) *book.OrderChange {
	return &book.OrderChange{CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, From: o.State, Reason: r.Why()}
}

// asks holds an order until the persons that the policy wants have approved. It also holds one that was approved by
// fewer than the policy wants now.
func asks(o book.Order, r policy.Ruling) finding {
	f := finding{answer: merchant.Hold(countersign.CodeAwaitingApproval, "")}
	if o.State != client.OrderHeld {
		f.change = changeOf(o, r)
		f.change.To = client.OrderHeld
	}
	return f
}
