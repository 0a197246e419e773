package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/policy"
)

// wordPolicy decides by a single word, which tests change.
type wordPolicy struct {
	effect    policy.Effect
	approvals int
	err       error
	look      func(ctx context.Context, r policy.Request) // may be nil
}

func (p *wordPolicy) use(c *Config) { c.decides = p.decide }

func (p *wordPolicy) decide(ctx context.Context, r policy.Request) (policy.Ruling, error) {
	if p.look != nil {
		p.look(ctx, r)
	}
	return policy.Ruling{Effect: p.effect, Approvals: p.approvals, Rule: "test", Reason: "because"}, p.err
}

// TestSelfApproval: who ordered a withdrawal approves it where the policy file says so. TestTasksAgreeWithTheRule has the
// rule without that.
func TestSelfApproval(t *testing.T) {
	self, err := policy.Parse([]byte("default = \"ask\"\nself-approval = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Policy = self })
	o, err := r.client.AddOrder(t.Context(), newOrder(2))
	if err == nil {
		_, err = r.client.ApproveOrder(t.Context(), o.CallBackID, "mine")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.confirmed(2)
}

// TestOrders follows orders through what can become of them, on both
// databases.
func TestOrders(t *testing.T) {
	rules := &wordPolicy{}
	eachRig(t, rules.use, func(t *testing.T, r *rig) {
		*rules = wordPolicy{effect: policy.Allow}
		testOrders(t, r, rules)
	})
}

func testOrders(t *testing.T, r *rig, rules *wordPolicy) {
	ctx := t.Context()
	ask := func(n int, want countersign.ErrCode) {
		t.Helper()
		if got := r.deliver(countersigntest.Withdrawal(n)); got != want {
			t.Fatalf("order %d: errCode %d, want %d\n%s", n, got, want, r.log)
		}
	}
	ok := func(_ client.Order, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	conflict := func(_ client.Order, err error) {
		t.Helper()
		if !errors.Is(err, client.ErrConflict) {
			t.Fatalf("got %v, want a conflict", err)
		}
	}
	id := func(n int) string { return countersigntest.Withdrawal(n).CallBackID }

	// Confirmed, again with the same details, executed.
	r.order(1)
	r.state(1, client.OrderOpen)
	for range 3 {
		if got := r.confirmed(1); got.Differs(countersigntest.Order(1)) != "" {
			t.Fatalf("confirmed %v", got)
		}
	}
	if o := r.state(1, client.OrderConfirmed); o.Confirmed == 0 || o.Reason != "test: because" {
		t.Fatalf("confirmed order: %+v", o)
	}
	conflict(r.client.CancelOrder(ctx, id(1), ""))
	conflict(r.client.DeclineOrder(ctx, id(1), ""))
	conflict(r.client.ApproveOrder(ctx, id(1), ""))
	r.deliver(countersigntest.Notice(countersign.TypeWithdraw, 1))
	if o := r.state(1, client.OrderExecuted); o.TxID == "" || o.Ended == 0 {
		t.Fatalf("executed order: %+v", o)
	}
	ask(1, countersign.CodeOrderCancelled) // it is over

	// Unknown: hold for the grace period, then refused for good.
	ask(2, countersign.CodeNotKnownYet)
	r.clock.advance(DefaultGrace - time.Second)
	ask(2, countersign.CodeNotKnownYet)
	r.clock.advance(2 * time.Second)
	ask(2, countersign.CodeUnknownOrder)
	ask(2, countersign.CodeUnknownOrder)
	r.state(2, client.OrderUnknown)
	if _, err := r.app.AddOrder(ctx, newOrder(2)); !errors.Is(err, client.ErrConflict) {
		t.Fatalf("an order that came too late: %v", err)
	}
	r.wantAlarms(client.AlarmEndedAgain, client.AlarmOrderUnknown)

	// Late, but within the grace period.
	ask(3, countersign.CodeNotKnownYet)
	r.order(3)
	r.confirmed(3)

	// A person is asked.
	rules.effect = policy.Ask
	r.order(4)
	ask(4, countersign.CodeAwaitingApproval)
	ask(4, countersign.CodeAwaitingApproval)
	r.state(4, client.OrderHeld)
	ok(r.client.ApproveOrder(ctx, id(4), "looks right"))
	ok(r.client.ApproveOrder(ctx, id(4), "looks right"))
	r.confirmed(4)
	if o := r.state(4, client.OrderConfirmed); o.DecidedBy == "" || o.Reason != "looks right" {
		t.Fatalf("approved order: %+v", o)
	}
	r.deliver(countersigntest.Notice(countersign.TypeWithdraw, 4))
	if o := r.state(4, client.OrderExecuted); o.DecidedBy == "" || o.Reason != "looks right" {
		t.Fatalf("approved and executed: %+v", o)
	}
	// Approval meets Ask and never Deny.
	r.order(5)
	ok(r.client.ApproveOrder(ctx, id(5), ""))
	rules.effect = policy.Deny
	ask(5, countersign.CodeRefusedPolicy)
	r.state(5, client.OrderDeclined)
	ask(5, countersign.CodeRefusedPolicy)

	// Declined, cancelled, expired, before and while a person is asked.
	rules.effect = policy.Ask
	r.order(6)
	ok(r.client.DeclineOrder(ctx, id(6), "no"))
	ask(6, countersign.CodeRefusedPerson)
	r.order(7)
	ask(7, countersign.CodeAwaitingApproval)
	ok(r.client.CancelOrder(ctx, id(7), ""))
	ok(r.client.CancelOrder(ctx, id(7), ""))
	conflict(r.client.ApproveOrder(ctx, id(7), ""))
	ask(7, countersign.CodeOrderCancelled)
	o := newOrder(8)
	o.ExpiresAt = client.Time(r.clock.now().Add(time.Minute).UnixMilli())
	if _, err := r.app.AddOrder(ctx, o); err != nil {
		t.Fatal(err)
	}
	ask(8, countersign.CodeAwaitingApproval)
	r.clock.advance(time.Minute)
	conflict(r.client.ApproveOrder(ctx, id(8), ""))
	rules.effect = policy.Allow
	ask(8, countersign.CodeOrderCancelled)
	r.state(8, client.OrderExpired)

	// Another tenantUserId than the order's.
	r.order(9)
	w := countersigntest.Withdrawal(9)
	w.TenantUserID = "somebody else"
	if got := r.deliver(w); got != countersign.CodeDetailsDiffer {
		t.Fatalf("another user: %d", got)
	}
	r.state(9, client.OrderDeclined)
	ask(9, countersign.CodeDetailsDiffer)

	// A policy that cannot be asked decides nothing.
	r.order(10)
	rules.err = errors.New("down")
	ask(10, countersign.CodeInternal)
	r.state(10, client.OrderOpen)
	rules.err = nil
	r.confirmed(10)
	// A question that nothing was decided on does not bind its callBackId to its user; one that was answered for good does.
	w = countersigntest.Withdrawal(11)
	w.TenantUserID = "somebody else"
	for _, want := range []countersign.ErrCode{countersign.CodeNotKnownYet, countersign.CodeDetailsDiffer} {
		if got := r.deliver(w); got != want {
			t.Fatalf("another user: %d, want %d", got, want)
		}
		if want == countersign.CodeNotKnownYet {
			r.order(11)
		}
		r.confirmed(11)
	}
	r.wantAlarms(client.AlarmEndedAgain, client.AlarmOrderUnknown, client.AlarmOrderUnknown, client.AlarmRequestSuspect)
	r.wantCauses("never ordered", "another tenantUserId", "other_content")
}

// TestOrderEdges lets the order change between the look at it and the decision.
func TestOrderChangesMeanwhile(t *testing.T) {
	rules := &wordPolicy{}
	eachRig(t, rules.use, func(t *testing.T, r *rig) {
		*rules = wordPolicy{effect: policy.Allow}
		r.order(1)
		first := true
		rules.look = func(ctx context.Context, _ policy.Request) {
			if first {
				first = false
				if _, err := r.client.CancelOrder(ctx, countersigntest.Withdrawal(1).CallBackID, "meanwhile"); err != nil {
					t.Error(err)
				}
			}
		}
		if got := r.deliver(countersigntest.Withdrawal(1)); got != countersign.CodeOrderCancelled {
			t.Fatalf("errCode %d", got)
		}
		r.state(1, client.OrderCancelled)
	})
}

// TestLimitsAreCeilings: the limits of a ruling are conditions of the change, which the book holds exactly
// (TestCeilingsTogether).
func TestLimitsAreCeilings(t *testing.T) {
	limits := []policy.Limit{{Rule: "day", Symbol: "USDT"}, {Rule: "user and day", TenantUserID: "7"}}
	f := ruled(book.Order{}, policy.Ruling{Effect: policy.Allow, Limits: limits})
	if f.change.To != client.OrderConfirmed || !slices.Equal(f.change.Ceilings, limits) {
		t.Errorf("%+v", f.change)
	}
}

// TestNotices holds notices to moving an order forward alone.
func TestNotices(t *testing.T) {
	done, ended := countersign.TypeWithdraw, countersign.TypeInvalidAddress
	short, hot := countersign.TypeNotEnoughMoney, countersign.TypeNotEnoughHotMoney
	cases := []struct {
		name    string
		confirm bool
		notices []countersign.Type
		want    client.OrderState
		waiting client.WaitingFor
		alarms  []client.AlarmKind
	}{
		{"executed", true, []countersign.Type{done}, client.OrderExecuted, "", nil},
		{"executed after waiting", true, []countersign.Type{short, hot, done}, client.OrderExecuted, "", nil},
		{"waiting", true, []countersign.Type{hot}, client.OrderConfirmed, client.WaitingForFees, nil},
		{"ended", true, []countersign.Type{short, ended}, client.OrderEnded, "", nil},
		{"ended before it was asked for", false, []countersign.Type{ended}, client.OrderEnded, "", nil},
		{"short of funds after the end", true, []countersign.Type{ended, short}, client.OrderEnded, "", nil},
		{"5 after 3", true, []countersign.Type{done, ended}, client.OrderExecuted, "", []client.AlarmKind{client.AlarmExecutedTwice}},
		{"3 after 5", true, []countersign.Type{ended, done}, client.OrderEnded, "", []client.AlarmKind{client.AlarmExecutedTwice}},
		{"executed without confirmation", false, []countersign.Type{done}, client.OrderExecuted, "", []client.AlarmKind{client.AlarmExecutedDiffers}},
	}
	eachRig(t, nil, func(t *testing.T, r *rig) {
		var alarms []client.AlarmKind
		for n, c := range cases {
			r.order(n)
			if c.confirm {
				r.confirmed(n)
			}
			for _, typ := range c.notices {
				for range 2 { // repeated, it does nothing more
					if got := r.deliver(countersigntest.Notice(typ, n)); got != countersign.CodeAccepted {
						t.Fatalf("%s: type %d: errCode %d", c.name, typ, got)
					}
				}
			}
			if o := r.state(n, c.want); o.Waiting != c.waiting {
				t.Fatalf("%s: waiting is %q", c.name, o.Waiting)
			}
			alarms = append(alarms, c.alarms...)
			r.wantAlarms(alarms...)
		}
		r.wantCauses("ended after its execution", "executed after its end", "executed without confirmation")
		// Executed with other details.
		for member, change := range map[string]func(*countersign.WithdrawalDone){
			"address":   func(w *countersign.WithdrawalDone) { w.ToAddress = "elsewhere" },
			"chainName": func(w *countersign.WithdrawalDone) { w.ChainName = "TRON" },
			"symbol":    func(w *countersign.WithdrawalDone) { w.Symbol = "USDC" },
			"amount":    func(w *countersign.WithdrawalDone) { w.Amount = amount(t, "0.1") },
		} {
			n := len(alarms) + 50
			r.order(n)
			r.confirmed(n)
			w := countersigntest.Notice(countersign.TypeWithdraw, n).(*countersign.WithdrawalDone)
			change(w)
			r.deliver(w)
			if o := r.state(n, client.OrderExecuted); o.Reason != "executed with another "+member {
				t.Errorf("%s: %q", member, o.Reason)
			}
			alarms = append(alarms, client.AlarmExecutedDiffers)
		}
		r.deliver(countersigntest.Notice(countersign.TypeInvalidAddress, 98)) // nothing was ordered
		r.wantAlarms(alarms...)
	})
}
