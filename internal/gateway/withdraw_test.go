package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/policy"
	"countersign/merchant"
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

// TestSelfApproval: who ordered a withdrawal approves it where the policy file says so, and nowhere else; where nobody
// else could, the alarm is raised at once.
func TestSelfApproval(t *testing.T) {
	for _, self := range []bool{false, true} {
		rules := must(policy.Parse(fmt.Appendf(nil, "default = \"ask\"\nself-approval = %v\n", self)))(t)
		r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Policy = rules })
		o := must(r.client.AddOrder(t.Context(), newOrder(2)))(t)
		r.asked(2, countersign.CodeAwaitingApproval)
		if task := r.orderTask(2); self {
			r.wantToldOf(0)
		} else if r.wantToldOf(0, o.CallBackID); task.Nobody == "" || slices.Contains(task.May, "approve") {
			t.Errorf("%+v", task)
		}
		_, err := r.client.ApproveOrder(t.Context(), o.CallBackID, "mine")
		if (err == nil) != self || !self && !errors.Is(err, client.ErrForbidden) {
			t.Errorf("%v: %v", self, err)
		}
		if code := r.deliver(countersigntest.Withdrawal(2)); (code == countersign.CodeAccepted) != self {
			t.Errorf("%v: errCode %d", self, code)
		}
	}
}

// TestOrders follows orders through what can become of them, on both
// databases.
func TestOrders(t *testing.T) {
	rules := &wordPolicy{}
	eachRig(t, rules.use, func(t *testing.T, r *rig) {
		*rules = wordPolicy{effect: policy.Allow}
		ctx := t.Context()
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
		dbtest.Fails(r.client.CancelOrder(ctx, id(1), ""))(t, client.ErrConflict, "")
		dbtest.Fails(r.client.DeclineOrder(ctx, id(1), ""))(t, client.ErrConflict, "")
		dbtest.Fails(r.client.ApproveOrder(ctx, id(1), ""))(t, client.ErrConflict, "")
		r.deliver(countersigntest.Notice(countersign.TypeWithdraw, 1))
		if o := r.state(1, client.OrderExecuted); o.TxID == "" || o.Ended == 0 {
			t.Fatalf("executed order: %+v", o)
		}
		for range 2 { // it is over: a person hears of it once, and again where a restore lost the answer
			for range 3 {
				r.asked(1, countersign.CodeOrderCancelled)
			}
			r.exec(`DELETE FROM inbox WHERE type = 2`)
		}
		r.wantNumbers(2)

		// Unknown: hold for the grace period, then refused for good.
		r.asked(2, countersign.CodeNotKnownYet)
		r.clock.advance(DefaultGrace - time.Second)
		r.asked(2, countersign.CodeNotKnownYet)
		r.clock.advance(2 * time.Second)
		r.asked(2, countersign.CodeUnknownOrder)
		r.asked(2, countersign.CodeUnknownOrder)
		r.state(2, client.OrderUnknown)
		dbtest.Fails(r.app.AddOrder(ctx, newOrder(2)))(t, client.ErrConflict, "")
		r.wantAlarms(client.AlarmEndedAgain, client.AlarmOrderUnknown)

		// Late, but within the grace period.
		r.asked(3, countersign.CodeNotKnownYet)
		r.order(3)
		r.confirmed(3)

		// A person is asked.
		rules.effect = policy.Ask
		r.order(4)
		r.asked(4, countersign.CodeAwaitingApproval)
		r.asked(4, countersign.CodeAwaitingApproval)
		r.state(4, client.OrderHeld)
		must(r.client.ApproveOrder(ctx, id(4), "looks right"))(t)
		must(r.client.ApproveOrder(ctx, id(4), "looks right"))(t)
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
		must(r.client.ApproveOrder(ctx, id(5), ""))(t)
		rules.effect = policy.Deny
		r.asked(5, countersign.CodeRefusedPolicy)
		r.state(5, client.OrderDeclined)
		r.asked(5, countersign.CodeRefusedPolicy)

		// Declined before it is asked for.
		r.order(6)
		must(r.client.DeclineOrder(ctx, id(6), "no"))(t)
		r.asked(6, countersign.CodeRefusedPerson)

		// Another tenantUserId than the order's.
		rules.effect = policy.Allow
		r.order(9)
		w := countersigntest.Withdrawal(9)
		w.TenantUserID = "somebody else"
		r.answers(w, countersign.CodeDetailsDiffer)
		r.state(9, client.OrderDeclined)
		r.asked(9, countersign.CodeDetailsDiffer)

		// A policy that cannot be asked decides nothing.
		r.order(10)
		rules.err = errors.New("down")
		r.asked(10, countersign.CodeInternal)
		r.state(10, client.OrderOpen)
		rules.err = nil
		r.confirmed(10)
		// A question that nothing was decided on does not bind its callBackId to its user; one that was answered for good does.
		w = countersigntest.Withdrawal(11)
		w.TenantUserID = "somebody else"
		r.answers(w, countersign.CodeNotKnownYet)
		r.order(11)
		r.confirmed(11)
		r.answers(w, countersign.CodeDetailsDiffer)
		r.confirmed(11)
		r.wantAlarms(client.AlarmEndedAgain, client.AlarmOrderUnknown, client.AlarmOrderUnknown, client.AlarmRequestSuspect)
	})
}

// TestOrderChangesMeanwhile lets the order, or whoever approved it, change between the look at it and the decision.
func TestOrderChangesMeanwhile(t *testing.T) {
	rules := &wordPolicy{effect: policy.Allow}
	once := func(do func(context.Context)) {
		rules.look = func(ctx context.Context, _ policy.Request) {
			rules.look = nil
			do(ctx)
		}
	}
	eachRig(t, rules.use, func(t *testing.T, r *rig) {
		r.order(1)
		once(func(ctx context.Context) {
			if _, err := r.client.CancelOrder(ctx, countersigntest.Withdrawal(1).CallBackID, "meanwhile"); err != nil {
				t.Error(err)
			}
		})
		r.asked(1, countersign.CodeOrderCancelled)
		r.state(1, client.OrderCancelled)
	})
	// With PostgreSQL a token can be revoked while the transaction that confirms has begun.
	var inside func()
	r := newRig(t, dialects[1].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) {
		rules.use(c)
		now := c.Now
		c.Now = func() time.Time {
			if do := inside; do != nil {
				inside = nil
				do()
			}
			return now()
		}
	})
	rules.effect = policy.Ask
	ann, token := r.named(r.client.url, "ann", client.RoleApprover)
	o := newOrder(1)
	r.order(1)
	must(ann.ApproveOrder(t.Context(), o.CallBackID, ""))(t)
	once(func(ctx context.Context) {
		inside = func() {
			if err := api.NewTokens(r.db).Revoke(ctx, token.ID, db.MillisOf(r.clock.now()), nil); err != nil {
				t.Error(err)
			}
		}
	})
	r.asked(1, countersign.CodeAwaitingApproval)
	r.state(1, client.OrderHeld)
}

// TestJudge: an order is confirmed only where the policy allows it or it was confirmed before, and nothing is decided
// that a restore may have lost. The limits of a ruling are conditions of the change, which the book holds exactly
// (TestSpentAgrees, TestCeilingsTogether).
func TestJudge(t *testing.T) {
	w := countersign.WithdrawalRequest{Head: countersign.Head{TenantUserID: "7"}}
	refused := map[client.OrderState]countersign.ErrCode{client.OrderUnknown: countersign.CodeUnknownOrder, client.OrderDeclined: countersign.CodeRefusedPerson,
		client.OrderCancelled: countersign.CodeOrderCancelled, client.OrderExpired: countersign.CodeOrderCancelled,
		client.OrderEnded: countersign.CodeOrderCancelled, client.OrderExecuted: countersign.CodeOrderCancelled}
	for _, state := range client.Values[client.OrderState]() {
		o := book.Order{Order: client.Order{TenantUserID: "7", State: state, ExpiresAt: 100}}
		code, final := refused[state]
		for name, c := range map[string]struct {
			restored, lost, confirmed bool // the book is not reconciled; the order is from before; it was confirmed once
			user                      string
			at                        db.Millis
		}{
			"":                {user: "7", at: 99},
			"not named":       {at: 99},
			"confirmed":       {user: "7", at: 99, confirmed: true},
			"expired":         {user: "7", at: 100},
			"of another user": {user: "8", at: 99},
			"not reconciled":  {user: "7", at: 99, restored: true},
			"restored":        {user: "7", at: 99, lost: true},
		} {
			w.TenantUserID, o.Restored, o.Confirmed = c.user, c.lost, 0
			if c.confirmed {
				o.Confirmed = 5
			}
			f := judge(book.Asked{Known: true, Order: o, Restored: c.restored}, w, c.at, time.Second)
			want, change := code, client.OrderState("")
			switch {
			case (c.restored || c.lost) && !final:
				want = countersign.CodeNotKnownYet
			case c.user == "8" && state != client.OrderUnknown:
				if want = countersign.CodeDetailsDiffer; state.Undecided() {
					change = client.OrderDeclined
				}
			case c.at == 100 && state.Undecided():
				want, change = countersign.CodeOrderCancelled, client.OrderExpired
			}
			rule := want == 0 && state != client.OrderConfirmed
			again := c.confirmed && final && state != client.OrderUnknown && state != client.OrderDeclined
			answer := merchant.Refuse(want, "")
			switch {
			case want == countersign.CodeNotKnownYet:
				answer = merchant.Hold(want, "")
			case rule:
				answer = merchant.Answer{}
			case want == 0:
				answer = merchant.Confirm("7", o.Details())
			}
			if f.answer != answer || f.rule != rule || f.again != again || f.unknown || (f.change != nil) != (change != "") ||
				change != "" && (f.change.To != change || f.change.From != state || f.change.OtherUser != (change == client.OrderDeclined)) {
				t.Errorf("%s, %s: %+v, want %d, to %q", state, name, f, want, change)
			}
		}
	}
	for _, restored := range []bool{false, true} {
		for _, at := range []db.Millis{999, 1000} {
			want := finding{answer: merchant.Hold(countersign.CodeNotKnownYet, "")}
			if at == 1000 && !restored {
				want = finding{answer: merchant.Refuse(countersign.CodeUnknownOrder, ""), unknown: true}
			}
			if f := judge(book.Asked{Restored: restored}, w, at, time.Second); f != want {
				t.Errorf("not known at %d, restored %v: %+v", at, restored, f)
			}
		}
	}
	limits := []policy.Limit{{Rule: "day", Symbol: "USDT"}, {Rule: "user and day", TenantUserID: "7"}}
	f := ruled(book.Order{}, policy.Ruling{Effect: policy.Allow, Limits: limits})
	if f.change.To != client.OrderConfirmed || !slices.Equal(f.change.Ceilings, limits) {
		t.Errorf("%+v", f.change)
	}
}

// TestHoldWaits: with hold = "wait" a withdrawal is confirmed within one exchange,
// where its order arrives, or a person approves it, after the question. What nobody
// decides is told the provider's own code for a hold.
func TestHoldWaits(t *testing.T) {
	rules := &wordPolicy{}
	eachRig(t, func(c *Config) {
		rules.use(c)
		c.Callbacks.Profile = merchant.Profile{Hold: merchant.HoldWait, Wait: 90 * time.Second, HoldCode: 42}
	}, func(t *testing.T, r *rig) {
		rules.effect = policy.Allow
		// ask puts the question and gives what its answer was, once it is there.
		ask := func(n int) chan countersign.ErrCode {
			answer := make(chan countersign.ErrCode, 1)
			go func() { answer <- r.deliver(countersigntest.Withdrawal(n)) }()
			r.until("withdrawal "+countersigntest.Withdrawal(n).CallBackID+" is asked for", func() bool {
				entries, _, err := r.book.Entries(t.Context(), client.InboxFilter{ID: countersigntest.Withdrawal(n).CallBackID}, 1, 0)
				return err == nil && len(entries) == 1 && !entries[0].Settled
			})
			return answer
		}

		late := ask(1)
		r.order(1)
		if code := <-late; code != countersign.CodeAccepted {
			t.Errorf("the order came later: errCode %d\n%s", code, r.log)
		}

		rules.effect = policy.Ask
		r.order(2)
		held := ask(2)
		r.until("the order is held", func() bool {
			asked, err := r.book.AskedFor(t.Context(), countersigntest.Withdrawal(2).CallBackID, 1)
			return err == nil && asked.Order.State == client.OrderHeld
		})
		must(r.client.ApproveOrder(t.Context(), countersigntest.Withdrawal(2).CallBackID, "looks right"))(t)
		if code := <-held; code != countersign.CodeAccepted {
			t.Errorf("approved: errCode %d\n%s", code, r.log)
		}

		r.order(3)
		held = ask(3)
		must(r.client.DeclineOrder(t.Context(), countersigntest.Withdrawal(3).CallBackID, "no"))(t)
		if code := <-held; code != countersign.CodeRefusedPerson {
			t.Errorf("declined: errCode %d\n%s", code, r.log)
		}

		// Stopping answers what waits, and holds nothing open from then on.
		waits := ask(4)
		r.Stop()
		if code := <-waits; code != 42 {
			t.Errorf("stopped: errCode %d", code)
		}
		if code := <-ask(5); code != 42 {
			t.Errorf("after the stop: errCode %d", code)
		}
	})
}

// until waits for is (dbtest.Until).
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	dbtest.Until(r.t, what, is, r.log)
}

// TestTwoWorkOnOneQuestion: a lease on a question may end while it is worked on. Whoever decides, at how many nodes at
// once, and whatever persons do meanwhile, the answers agree with each other and with what became of the order.
func TestTwoWorkOnOneQuestion(t *testing.T) {
	rules, url, service := &wordPolicy{}, dialects[1].url(t), newService(t, countersigntest.ServiceConfig{})
	node := func() *rig {
		return newRig(t, url, service, func(c *Config) {
			c.lease, c.Grace = time.Nanosecond, -1
			rules.use(c)
		})
	}
	a, b := node(), node()
	for n := range 18 {
		id := countersigntest.Withdrawal(n).CallBackID
		rules.effect = []policy.Effect{policy.Allow, policy.Deny, policy.Ask}[n/3%3]
		late := n%5 == 0 // it comes while it is asked for
		if !late {
			a.order(n)
		}
		var work sync.WaitGroup
		codes := make([]countersign.ErrCode, 6)
		for i := range codes {
			r := []*rig{a, b}[i%2]
			w := *countersigntest.Withdrawal(n)
			work.Go(func() { codes[i] = r.deliver(&w) })
		}
		decide := []func(context.Context, string, string) (client.Order, error){a.client.CancelOrder, b.client.DeclineOrder, b.client.ApproveOrder}[n%3]
		work.Go(func() {
			if late {
				_, _ = b.app.AddOrder(t.Context(), newOrder(n)) // may be too late
			}
			_, _ = decide(t.Context(), id, "") // may be too late
		})
		work.Wait()
		for _, r := range []*rig{a, b} {
			codes = append(codes, r.deliver(countersigntest.Withdrawal(n)))
		}
		final := codes[:0]
		for _, code := range codes {
			if class := code.Class(); class == countersign.ClassAccepted || class == countersign.ClassRefused {
				final = append(final, code) // a busy database may also have answered "failed, ask again"
			}
		}
		if len(final) == 0 {
			continue
		}
		want := map[string]countersign.ErrCode{"confirmed": 0, "cancelled": countersign.CodeOrderCancelled, "unknown": countersign.CodeUnknownOrder}
		o, err := a.client.Order(t.Context(), id)
		is, known := want[string(o.State)]
		if o.State == "declined" {
			is, known = countersign.CodeRefusedPerson, true
			if o.DecidedBy == byPolicy {
				is = countersign.CodeRefusedPolicy
			}
		}
		if err != nil || !known || slices.Min(final) != is || slices.Max(final) != is {
			t.Fatalf("order %d is %s (%s): errCodes %v, %v\n%s%s", n, o.State, o.DecidedBy, codes, err, a.log, b.log)
		}
	}
}
