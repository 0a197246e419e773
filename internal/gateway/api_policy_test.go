package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
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
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			first, second := newOrder(1), newOrder(2)
			first.ChainName, second.ChainName, second.Symbol, second.Address = "TRON", "TRON", first.Symbol, first.Address
			text := fmt.Sprintf(heldPolicy, first.Symbol, first.Amount)
			rules, err := policy.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Policy = rules })
			for _, o := range []client.NewOrder{first, second} {
				if _, err := r.client.AddOrder(ctx, o); err != nil {
					t.Fatal(err)
				}
			}
			in, err := r.client.Policy(ctx)
			if err != nil || in.Source != text || !in.MayAsk || in.SelfApproval || in.Summary != rules.Summary() {
				t.Errorf("%+v, %v", in, err)
			}
			before, err := r.client.OrderRuling(ctx, second.CallBackID)
			if err != nil || before.Asked != 0 {
				t.Errorf("before the service asks: %+v, %v", before, err)
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
			got, err := r.client.OrderRuling(ctx, second.CallBackID)
			if err != nil || got.Effect != client.EffectAsk || got.Rule != "a day" || got.Asked != asked {
				t.Fatalf("%+v, %v", got, err)
			}
			if len(got.Steps) != 2 || got.Steps[0].Name != "known chain" || got.Steps[1].Kind != "limit" ||
				got.Steps[1].Spent.Cmp(first.Amount) != 0 || got.Steps[1].Max.Cmp(first.Amount) != 0 {
				t.Errorf("steps %+v", got.Steps)
			}
			r.state(2, "held")
			try := client.TryOrder{TenantUserID: "u", Address: "a", ChainName: "BTC", Symbol: first.Symbol, Amount: first.Amount}
			denied, err := r.client.TryPolicy(ctx, try)
			if err != nil || denied.Effect != client.EffectDeny || denied.Rule != "" || len(denied.Steps) != 1 {
				t.Errorf("%+v, %v", denied, err)
			}
			try.Amount = countersign.Amount{}
			if _, err := r.client.TryPolicy(ctx, try); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), "amount") {
				t.Errorf("without an amount: %v", err)
			}
			if _, err := r.client.OrderRuling(ctx, "none"); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("an order that is not there: %v", err)
			}
			to, err := r.client.Orders(ctx, client.OrderFilter{Address: first.Address}, client.PageOptions{})
			if err != nil || len(to.Orders) != 2 || to.Orders[0].CallBackID != second.CallBackID {
				t.Errorf("the address's orders: %+v, %v", to, err)
			}
		})
	}
}

// TestSearchDeposits finds deposits by what people know of them, and the first of a
// transfer that is told twice.
func TestSearchDeposits(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			first, other, again := countersigntest.Deposit(1), countersigntest.Deposit(2), countersigntest.Deposit(1)
			other.TxID += strings.Repeat("é", 100)
			again.TrackingID = first.TrackingID + "-again"
			long := countersigntest.Deposit(3)
			long.TxID = other.TxID + strings.Repeat("x", 4000) // the same beginning, and longer than an index of PostgreSQL holds
			for _, dep := range []*countersign.Deposit{first, other, again, long} {
				if got := r.deliver(dep); got != countersign.CodeAccepted {
					t.Fatalf("%s: %d", dep.TrackingID, got)
				}
			}
			seqs := func(f client.DepositSearch, o client.PageOptions) (list []int64, next *string) {
				t.Helper()
				p, err := r.client.SearchDeposits(ctx, f, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range p.Deposits {
					list = append(list, d.Seq)
				}
				return list, p.Next
			}
			for _, c := range []struct {
				f    client.DepositSearch
				want []int64
			}{
				{client.DepositSearch{}, []int64{4, 3, 2, 1}},
				{client.DepositSearch{TxID: first.TxID}, []int64{3, 1}},
				{client.DepositSearch{TxID: other.TxID}, []int64{2}},
				{client.DepositSearch{TrackingID: again.TrackingID}, []int64{3}},
				{client.DepositSearch{State: client.DepositHeld}, []int64{3}},
				{client.DepositSearch{TxID: first.TxID, State: client.DepositTaken}, []int64{1}},
				{client.DepositSearch{TenantUserID: "nobody"}, nil},
			} {
				got, _ := seqs(c.f, client.PageOptions{})
				if len(got) != len(c.want) {
					t.Errorf("%+v: %v, want %v", c.f, got, c.want)
					continue
				}
				for i := range got {
					if got[i] != c.want[i] {
						t.Errorf("%+v: %v, want %v", c.f, got, c.want)
					}
				}
			}
			page, next := seqs(client.DepositSearch{}, client.PageOptions{Limit: 3})
			if len(page) != 3 || next == nil {
				t.Fatalf("%v, %v", page, next)
			}
			if rest, end := seqs(client.DepositSearch{}, client.PageOptions{Limit: 3, Cursor: *next}); len(rest) != 1 || rest[0] != 1 || end != nil {
				t.Errorf("the second page: %v, %v", rest, end)
			}
			if f := r.firstOf(3); f != "1" {
				t.Errorf("the first of the transfer is %q", f)
			}
			if f := r.firstOf(1); f != "" {
				t.Errorf("the first has %q before it", f)
			}
		})
	}
}
