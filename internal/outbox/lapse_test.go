package outbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

// testLapse: a confirmed withdrawal is released before its time and never from then on,
// swept or not. The merchant is told that it has ended, and a person by an alarm.
func testLapse(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, func(m *Merchant) { m.ReleaseWithin = client.Duration(10 * time.Second) })
	if m := must(s.Merchant(ctx, "m0"))(t); m.ReleaseWithin != client.Duration(10*time.Second) {
		t.Errorf("the merchant has %v", m.ReleaseWithin)
	}
	inTime, _ := confirmedWithdrawal(t, s, "in-time", 1000)
	late, details := confirmedWithdrawal(t, s, "late", 1000)
	if late.ReleaseBy != 11_001 {
		t.Fatalf("confirmed: %+v", late)
	}
	declined, one := asked(t, s, "declined", 50_000, 1000)
	must(s.Settle(ctx, []Settlement{answer(one, countersign.DecisionDeclined, nil)}, 1001))(t)
	// The merchant's setting counts for what is confirmed from now on.
	must(s.UpdateMerchant(ctx, "m0", 1002, func(m *Merchant) error { m.ReleaseWithin = 0; return nil }))(t)
	longer, _ := confirmedWithdrawal(t, s, "longer", 1100)
	if longer.ReleaseBy != 1101+db.Millis((72*time.Hour).Milliseconds()) {
		t.Errorf("by default: %+v", longer)
	}
	if p := must(s.Release(ctx, inTime.ID, Holder{Claim: "a", Origin: "core"}, "p", 11_000))(t); p.Duplicate || p.Withdrawal.State != client.WithdrawalReleased {
		t.Errorf("released just in time: %+v", p)
	}
	if swept := must(s.Sweep(ctx, 11_000))(t); len(swept.Lapsed) != 0 {
		t.Errorf("swept early: %+v", swept)
	}
	refused := func(when string) {
		t.Helper()
		if p, err := s.Release(ctx, late.ID, Holder{Claim: "a", Origin: "core"}, "p", 11_001); !errors.Is(err, db.ErrConflict) || !strings.Contains(err.Error(), "lapsed") {
			t.Errorf("%s: released %+v, %v", when, p, err)
		}
	}
	refused("before the sweep")
	if err := errors.Join(pauseM0(s), freezeAll(s)); err != nil { // neither stops a deadline
		t.Fatal(err)
	}
	decisions := len(must(s.Decisions(ctx, 0, 100))(t))
	if swept := must(s.Sweep(ctx, 11_001))(t); len(swept.Lapsed) != 1 || swept.Lapsed[0] != late.ID {
		t.Errorf("swept %+v", swept)
	}
	if err := errors.Join(thawAll(s), resumeM0(s)); err != nil {
		t.Fatal(err)
	}
	refused("after the sweep")
	w := must(s.Withdrawal(ctx, late.ID))(t)
	if w.State != client.WithdrawalLapsed || w.Decision != countersign.DecisionConfirmed || w.Ended != 11_001 || w.Details == nil || countersign.Details(*w.Details).Differs(details) != "" {
		t.Errorf("lapsed to %+v", w)
	}
	if list := must(s.Decisions(ctx, 0, 100))(t); len(list) != decisions {
		t.Errorf("%d decisions, were %d", len(list), decisions)
	}
	if got := must(s.Stats(ctx))(t).Withdrawals; got[client.WithdrawalLapsed] != 1 || got[client.WithdrawalConfirmed] != 1 {
		t.Errorf("numbers %v", got)
	}
	n := 0
	for _, a := range must(endtest.Alarms(ctx, s))(t) {
		if a.Kind == client.AlarmLapsed && a.Merchant == "m0" && a.Subject == late.ID {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d alarms", n)
	}
	checkTold(t, s, w)
	if _, err := s.BlockWithdrawal(ctx, late.ID, "r", "tok_1", 11_002); !errors.Is(err, db.ErrConflict) {
		t.Errorf("blocking it gives %v", err)
	}
	if d := must(s.Withdrawal(ctx, declined.ID))(t); d.State != client.WithdrawalDeclined || d.ReleaseBy != 0 {
		t.Errorf("the declined one is %+v", d)
	}
}

// checkTold checks that the merchant is told once, by type 5, that w has ended.
func checkTold(t *testing.T, s *Outbox, w Withdrawal) {
	t.Helper()
	list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{CallBackID: w.CallBackID, Type: countersign.TypeInvalidAddress}, 10, "")
	if err != nil || len(list) != 1 || list[0].State != client.CallbackPending {
		t.Fatalf("the merchant is told %+v, %v", list, err)
	}
	cb, err := countersign.ParseCallback(list[0].Payload, countersign.ParseOptions{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := cb.(*countersign.WithdrawalEnded); !ok || e.CallBackID != w.CallBackID || e.TenantUserID != w.TenantUserID || e.TrackingID != w.TrackingID || e.ToAddress != w.Details.Address {
		t.Errorf("the merchant is told %+v", cb)
	}
}

// testEndsAreTold: every withdrawal that was asked about and ends without a release queues one
// callback of type 5, and one that was never asked about none.
func testEndsAreTold(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	settle := func(d countersign.Decision, at db.Millis) func(Claimed) {
		return func(c Claimed) {
			n := answer(c, d, someDetails(t, "1"))
			if d == countersign.DecisionExpired {
				n.State = client.CallbackExhausted
			}
			must(s.Settle(ctx, []Settlement{n}, at))(t)
		}
	}
	for i, c := range []struct {
		name string
		end  func(Claimed)
		to   client.WithdrawalState
	}{
		{"declined", settle(countersign.DecisionDeclined, 1100), client.WithdrawalDeclined},
		{"expired by its schedule", settle(countersign.DecisionExpired, 1100), client.WithdrawalExpired},
		{"confirmed too late", settle(countersign.DecisionConfirmed, 5000), client.WithdrawalExpired},
		{"expired by the sweep", func(Claimed) { must(s.Sweep(ctx, 5000))(t) }, client.WithdrawalExpired},
		{"cancelled", func(c Claimed) { must(s.CancelWithdrawal(ctx, c.ID, 1100))(t) }, client.WithdrawalCancelled},
		{"blocked", func(c Claimed) {
			settle(countersign.DecisionConfirmed, 1100)(c)
			must(s.BlockWithdrawal(ctx, c.ID, "why", "who", 1200))(t)
		}, client.WithdrawalBlocked},
	} {
		id := fmt.Sprint("cb", i)
		w, one := asked(t, s, id, 5000, 1000)
		c.end(one)
		if got := must(s.Withdrawal(ctx, w.ID))(t); got.State != c.to {
			t.Errorf("%s: it is %s", c.name, got.State)
		}
		// To cancel it again changes nothing, and what ended otherwise is not cancelled.
		got, err := s.CancelWithdrawal(ctx, w.ID, 9000)
		if is := c.to == client.WithdrawalCancelled; is != (err == nil) || !is && !errors.Is(err, db.ErrConflict) || is && (got.Decided != 1100 || got.Reason != client.ReasonCancelled) {
			t.Errorf("%s, then cancelled: %+v, %v", c.name, got, err)
		}
		list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{CallBackID: id, Type: countersign.TypeInvalidAddress}, 10, "")
		if err != nil || len(list) != 1 || list[0].State != client.CallbackPending {
			t.Errorf("%s: the merchant is told %+v, %v", c.name, list, err)
			continue
		}
		said, _, err := countersign.Bind(list[0].Payload, [6]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := countersign.ParseCallback(said, countersign.ParseOptions{}); err != nil || m.OrderID() != id || m.User() != w.TenantUserID {
			t.Errorf("%s: the merchant is told %+v, %v", c.name, m, err)
		}
	}
	// No attempt has begun: the merchant knows nothing of these.
	if _, err := s.CancelWithdrawal(ctx, "m0."+strings.Repeat("0", 26), 6000); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("cancelling nothing gives %v", err)
	}
	cancelled := addWithdrawal(t, s, newWithdrawal("not asked", 8000, nil), 6000)
	expired := addWithdrawal(t, s, newWithdrawal("not asked either", 8000, nil), 6000)
	must(s.CancelWithdrawal(ctx, cancelled.ID, 6100))(t)
	must(s.Sweep(ctx, 8000))(t)
	if w := must(s.Withdrawal(ctx, expired.ID))(t); w.State != client.WithdrawalExpired {
		t.Errorf("it is %s", w.State)
	}
	if list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Type: countersign.TypeInvalidAddress}, 20, ""); err != nil || len(list) != 6 {
		t.Errorf("%d callbacks of type 5, %v", len(list), err)
	}
}
