package gateway

import (
	"context"
	"errors"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// orderQuorum judges the approvals of an order that the policy rules so about. They count as they
// were at the last of them if the order is approved, or was: now is 0 or the time of the look.
func orderQuorum(ctx context.Context, b *book.Book, q db.Querier, p policy.Policy, o book.Order, r policy.Ruling, now db.Millis) (api.Quorum, error) {
	list, err := b.OrderApprovals(ctx, q, o)
	if err != nil {
		return api.Quorum{}, err
	}
	at := now
	if o.State != book.OrderOpen && o.State != book.OrderHeld || now == 0 {
		at = api.LastAt(list)
	}
	barred, err := barredFrom(ctx, q, p, o)
	if err != nil {
		return api.Quorum{}, err
	}
	return api.QuorumOf(ctx, q, r.Approvals, list, at, barred)
}

// barredFrom says why a token may not approve an order: who ordered it may hold it, unless the
// policy lets the same token do both.
func barredFrom(ctx context.Context, q db.Querier, p policy.Policy, o book.Order) (func(api.Token) (string, error), error) {
	if p.SelfApproval() || o.OrderedBy == "" {
		return nil, nil
	}
	orderer, err := api.FindToken(ctx, q, o.OrderedBy)
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil
	}
	return func(t api.Token) (string, error) {
		comes, err := api.ComesFrom(ctx, q, t, orderer)
		if err != nil || !comes {
			return "", err
		}
		return problemOf(book.ErrOwnOrder).Detail, nil
	}, err
}

// approve adds the approval of the call's token: with it the order is approved if there are as
// many as the policy wants now.
func (a *server) approve(ctx context.Context, c *api.Call, o book.Order, reason string) (book.Order, error) {
	ruling, err := a.decide(ctx, o, c.Now, nil)
	if err != nil {
		return o, err
	}
	return a.book.ApproveOrderAmong(ctx, o.CallBackID, db.Approval{Token: c.Token.ID, Name: c.Token.Name, At: c.Now, Reason: reason},
		func(ctx context.Context, q db.Querier, list []db.Approval) (bool, error) {
			barred, err := barredFrom(ctx, q, a.c.Policy, o)
			if err != nil {
				return false, err
			}
			quorum, err := api.QuorumOf(ctx, q, ruling.Approvals, list, c.Now, barred)
			if err == nil {
				err = quorum.Refuse(ctx, q, c.Token)
			}
			return quorum.Enough(), err
		})
}

// shownOrder is an order with who has approved it and who is missing.
func (a *server) shownOrder(ctx context.Context, o book.Order, now db.Millis) (client.Order, error) {
	out := orderOf(o)
	if o.Forged {
		return out, nil
	}
	ruling := policy.Ruling{}
	if o.State.Undecided() {
		var err error
		if ruling, err = a.decide(ctx, o, now, nil); err != nil {
			return out, nil // an order is shown also while the policy cannot be asked
		}
	}
	quorum, err := orderQuorum(ctx, a.book, a.lists, a.c.Policy, o, ruling, now)
	asked := o.State == book.OrderHeld || ruling.Effect == policy.Ask
	if err != nil || len(quorum.Given) == 0 && !asked {
		return out, err
	}
	out.Approvals = quorum.Shown()
	if !o.State.Undecided() {
		out.Approvals.Needed, out.Approvals.Missing = len(quorum.Given), 0
		return out, nil
	}
	barred, err := barredFrom(ctx, a.lists, a.c.Policy, o)
	if err == nil {
		out.Approvals.Could, err = quorum.Could(ctx, a.lists, now, func(api.Token) bool { return true }, barred)
	}
	return out, err
}

// awaiting gives the orders that are held for a person since a time or longer.
func awaiting(b *book.Book) func(ctx context.Context, since db.Millis, most int) ([]api.Awaited, error) {
	return func(ctx context.Context, since db.Millis, most int) (out []api.Awaited, err error) {
		for before := int64(0); ; {
			list, next, err := b.Orders(ctx, book.OrderFilter{State: book.OrderHeld}, most, before)
			if err != nil {
				return nil, err
			}
			for _, o := range list {
				if o.Updated <= since && len(out) < most {
					out = append(out, api.Awaited{Subject: "order " + o.CallBackID})
				}
			}
			if before = next; next == 0 || len(out) == most {
				return out, nil
			}
		}
	}
}
