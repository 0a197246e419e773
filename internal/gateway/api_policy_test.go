package gateway

import (
	"fmt"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
	"countersign/internal/policy"
)

const heldPolicy = `
default = "deny"
[[rule]]
name = "known chain"
chain = ["TRON", "ETH"]
effect = "allow"
[[limit]]
name = "a day"
symbol = "%s"
max = "%s"
window = "24h"
above = "ask"
`

// TestRuling: the API says of an order, kept or not, what the policy then does.
func TestRuling(t *testing.T) {
	first, second := newOrder(1), newOrder(2)
	first.ChainName, second.ChainName, second.Symbol, second.Address = "TRON", "TRON", first.Symbol, first.Address
	text := fmt.Sprintf(heldPolicy, first.Symbol, first.Amount)
	rules := must(policy.Parse([]byte(text)))(t)
	eachRig(t, func(c *Config) { c.Policy = rules }, func(t *testing.T, r *rig) {
		ctx := t.Context()
		for _, o := range []client.NewOrder{first, second} {
			must(r.client.AddOrder(ctx, o))(t)
		}
		if in := must(client.Get[client.PolicyInForce](ctx, r.client, "/v1/policy"))(t); in.Source != text || !in.MayAsk || in.SelfApproval || in.Summary != rules.Summary() {
			t.Errorf("%+v", in)
		}
		if before := must(client.Get[client.OrderRuling](ctx, r.client, client.Path("orders", second.CallBackID, "ruling")))(t); before.Asked != 0 {
			t.Errorf("before the service asks: %+v", before)
		}
		ask := func(n int, o client.NewOrder) countersign.ErrCode {
			w := countersigntest.Withdrawal(n)
			w.TenantUserID = o.TenantUserID
			return r.deliver(w)
		}
		if got := ask(1, first); got != countersign.CodeAccepted {
			t.Fatalf("the first order: %d", got)
		}
		asked := client.TimeOf(r.clock.now())
		if got := ask(2, second); got != countersign.CodeAwaitingApproval {
			t.Fatalf("the second order: %d", got)
		}
		got, err := client.Get[client.OrderRuling](ctx, r.client, client.Path("orders", second.CallBackID, "ruling"))
		if err != nil || got.Effect != client.EffectAsk || got.Rule != "a day" || got.Asked != asked {
			t.Fatalf("%+v, %v", got, err)
		}
		if len(got.Steps) != 2 || got.Steps[0].Name != "known chain" || got.Steps[1].Kind != "limit" ||
			got.Steps[1].Spent.Cmp(first.Amount) != 0 || got.Steps[1].Max.Cmp(first.Amount) != 0 {
			t.Errorf("steps %+v", got.Steps)
		}
		r.state(2, "held")
		try := client.TryOrder{TenantUserID: "u", Address: "a", ChainName: "BTC", Symbol: first.Symbol, Amount: first.Amount}
		if denied := must(client.Post[client.Ruling](ctx, r.client, "/v1/policy/try", try))(t); denied.Effect != client.EffectDeny || denied.Rule != "" || len(denied.Steps) != 1 {
			t.Errorf("%+v", denied)
		}
		try.Amount = countersign.Amount{}
		dbtest.Fails(client.Post[client.Ruling](ctx, r.client, "/v1/policy/try", try))(t, client.ErrInvalid, "amount")
		dbtest.Fails(client.Get[client.OrderRuling](ctx, r.client, client.Path("orders", "none", "ruling")))(t, client.ErrNotFound, "")
		if to := must(r.client.Orders(ctx, client.OrderFilter{Address: first.Address}, client.PageOptions{}))(t); len(to.Items) != 2 || to.Items[0].CallBackID != second.CallBackID {
			t.Errorf("the address's orders: %+v", to)
		}
	})
}
