package gateway

import (
	"context"

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

// approve adds the approval of the call's token to an order. It is approved once it has as many as the policy wants now.
func (g *Gateway) approve(c *api.Call, about, reason string) error {
	ctx := c.R.Context()
	o, err := g.book.Order(ctx, about)
	if err != nil {
		return err
	}
	ruling, err := g.policyOn(ctx, o, c.Now, nil)
	if err != nil {
		return err
	}
	if why := notAsked(o, ruling, c.Now); why != "" {
		return &db.ConflictError{Reason: why}
	}
	v := c.Vote(reason)
	_, err = g.book.ApproveOrder(ctx, o.CallBackID, v, func(ctx context.Context, q db.Querier,
		votes []db.Vote) (keep, enough bool, err error) {
		people, err := api.ReadPeople(ctx, q)
		if err != nil {
			return false, false, err
		}
		keep, agreed, err := people.Vote(askedOf(g.c.Policy, o, ruling, c.Now), votes, v)
		return keep, agreed.Enough(), err
	})
	return err
}
