package gateway

import (
	"context"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
)

func (g *Gateway) policy(*api.Call, api.None, api.None) (client.PolicyInForce, error) {
	p := g.c.Policy
	table := p.Table()
	if table == nil {
		table = []client.PolicyRow{}
	}
	return client.PolicyInForce{Source: p.Source(), Summary: p.Summary(), Table: table, SelfApproval: p.SelfApproval(),
		MayAsk: p.MayAsk()}, nil
}

func (g *Gateway) tryPolicy(c *api.Call, _ api.None, in client.TryOrder) (client.Ruling, error) {
	n := client.NewOrder{CallBackID: "try", TenantUserID: in.TenantUserID, Address: in.Address, ChainName: in.ChainName,
		Symbol: in.Symbol, Amount: in.Amount, ExpiresAt: in.ExpiresAt, Labels: in.Labels}
	if err := g.checkOrder(n); err != nil {
		return client.Ruling{}, err
	}
	now := c.Now
	if in.At != 0 {
		now = db.Millis(in.At)
	}
	return g.ruling(c.R.Context(), book.Ordered(n, "", now), now)
}

func (g *Gateway) orderRuling(c *api.Call, _ api.None, _ api.None) (client.OrderRuling, error) {
	asked, err := g.lists.AskedFor(c.R.Context(), c.R.PathValue("callBackId"), 0)
	if err == nil && !asked.Known {
		err = db.ErrNotFound
	}
	if err != nil {
		return client.OrderRuling{}, err
	}
	out := client.OrderRuling{}
	if asked.Since != 0 {
		out.Asked = api.TimeOf(asked.Since)
	}
	out.Ruling, err = g.ruling(c.R.Context(), asked.Order, c.Now)
	return out, err
}

// ruling asks the policy about an order as the service's question would, and changes nothing.
func (g *Gateway) ruling(ctx context.Context, o book.Order, now db.Millis) (client.Ruling, error) {
	out := client.Ruling{Steps: []client.PolicyStep{}, At: api.TimeOf(now)}
	ruling, err := g.policyOn(ctx, o, now, func(s client.PolicyStep) { out.Steps = append(out.Steps, s) })
	out.Effect, out.Approvals, out.Rule, out.Reason = client.Effect(ruling.Effect.String()), ruling.Approvals, ruling.Rule,
		ruling.Reason
	return out, err
}

// decide is ruling, but returns the policy's own answer.
func (g *Gateway) policyOn(ctx context.Context, o book.Order, now db.Millis,
	trace func(client.PolicyStep)) (policy.Ruling, error) {
	return g.c.decides(ctx, policy.Request{Order: o.Order, Now: now.Time(), Trace: trace, Spent: spentOf(g.lists)})
}

// spentOf returns the function by which limits read their sums.
func spentOf(b *book.Book) policy.SpentFunc {
	return func(ctx context.Context, symbol, tenantUserID string, since time.Time) (countersign.Sum, error) {
		return b.Spent(ctx, symbol, tenantUserID, db.MillisOf(since))
	}
}
