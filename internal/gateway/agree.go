package gateway

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// askedOf returns whom the policy asks before it confirms an order. Whoever ordered it does not count, unless the
// policy allows self-approval.
func askedOf(p *policy.Rules, o book.Order, r policy.Ruling, at db.Millis) api.Asked {
	asked := api.Asked{Needed: r.Approvals, At: at,
		Otherwise: ", or decline the order, or set self-approval = true in the policy file"}
	if !p.SelfApproval() {
		asked.By = []string{o.OrderedBy}
	}
	return asked
}

// orderAgreed returns who agrees to an order under a ruling, with the tokens as they are at a time.
func orderAgreed(ctx context.Context, q db.Querier, b *book.Book, p *policy.Rules, o book.Order, r policy.Ruling,
	at db.Millis) (api.Agreed, error) {
	votes, err := b.OrderApprovals(ctx, q, o)
	if err != nil {
		return api.Agreed{}, err
	}
	people, err := api.ReadPeople(ctx, q)
	return people.Agree(askedOf(p, o, r, at), votes), err
}

// notAsked returns why an approval of an order would change nothing under a ruling. It is empty if persons are asked,
// or if the order itself says why not.
func notAsked(o book.Order, r policy.Ruling, now db.Millis) string {
	if r.Effect == policy.Ask || o.WhyNotDecided(now) != "" {
		return ""
	}
	return "it needs no approval: the policy says " + r.Effect.String() + " about it now, when the service asks"
}

// approve adds the approval of the call's token. The order is approved once it has as many as the policy wants now.
func (a *server) approve(ctx context.Context, c *api.Call, o book.Order, reason string) (book.Order, error) {
	ruling, err := a.decide(ctx, o, c.Now, nil)
	if err != nil {
		return o, err
	}
	if why := notAsked(o, ruling, c.Now); why != "" {
		return o, &db.ConflictError{Reason: why}
	}
	v := c.Vote(reason)
	return a.book.ApproveOrder(ctx, o.CallBackID, v, func(ctx context.Context, q db.Querier, votes []db.Vote) (keep,
		enough bool, err error) {
		people, err := api.ReadPeople(ctx, q)
		if err != nil {
			return false, false, err
		}
		asked := askedOf(a.c.Policy, o, ruling, c.Now)
		if agreed := people.Agree(asked, votes); o.State == client.OrderApproved && agreed.Enough() {
			return false, true, nil // a repetition changes nothing, whoever makes it
		}
		keep, agreed, err := people.Vote(asked, votes, v)
		return keep, agreed.Enough(), err
	})
}
