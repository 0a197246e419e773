package outbox

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// checkTold checks that the merchant is told once, by type 5, that w has ended.
func checkTold(t *testing.T, s *Outbox, w Withdrawal) {
	t.Helper()
	list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{CallBackID: w.CallBackID, Type: countersign.TypeInvalidAddress}, 10, "")
	if err != nil || len(list) != 1 || list[0].State != client.CallbackPending {
		t.Fatalf("%s: the merchant is told %+v, %v", w.CallBackID, list, err)
	}
	said, _, err := countersign.Bind(list[0].Payload, [6]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	cb, err := countersign.ParseCallback(said, countersign.ParseOptions{})
	if e, ok := cb.(*countersign.WithdrawalEnded); err != nil || !ok || e.CallBackID != w.CallBackID || e.TenantUserID != w.TenantUserID ||
		e.TrackingID != w.TrackingID || e.ToAddress != targetOf(w.Details) {
		t.Errorf("%s: the merchant is told %+v, %v", w.CallBackID, cb, err)
	}
}

// testDeadlinesInRestore: a withdrawal that was added while a restore waits to be reconciled may be one that was executed
// before it, so it expires only afterwards.
func testDeadlinesInRestore(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	must(s.Restored(ctx, 0, 1000))(t)
	w := addWithdrawal(t, s, newWithdrawal("w", 2000, someDetails(t, "1")), 1000)
	for at, want := range []client.WithdrawalState{client.WithdrawalAwaiting, client.WithdrawalExpired} {
		must(s.Sweep(ctx, 3000+db.Millis(at)))(t)
		if is := must(s.Withdrawal(ctx, w.ID))(t); is.State != want {
			t.Errorf("it is %s, not %s", is.State, want)
		}
		must(s.Reconcile(ctx, 3000))(t)
	}
}

// testEnds: each way in which a withdrawal ends without a release, those of deadlines and people during a stop too.
// The merchant is told once of each that it was asked about, and of no other.
func testEnds(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, func(m *Merchant) { m.ReleaseWithin = client.Duration(10 * time.Second) })
	details := someDetails(t, "1")
	settle := func(d, want countersign.Decision, at db.Millis) func(Claimed) {
		return func(c Claimed) {
			n := answer(c, d, details)
			if d == countersign.DecisionExpired {
				n.State, n.Attempt.Reason = client.CallbackExhausted, client.ReasonDeadline
			}
			if done := must(s.Settle(ctx, []Settlement{n}, at))(t)[0]; done != (Settled{Applied: true, Decision: want, Late: d != want}) {
				t.Errorf("%s at %d: %+v", d, at, done)
			}
		}
	}
	late := func(c Claimed) { // a confirmation that was in flight contradicts no answer
		if done := must(s.Settle(ctx, []Settlement{answer(c, countersign.DecisionConfirmed, details)}, 9000))(t)[0]; done != (Settled{Late: true}) {
			t.Errorf("late: %+v", done)
		}
	}
	block := func(c Claimed, reason string) Withdrawal {
		return must(s.BlockWithdrawal(ctx, c.ID, reason, "who", 1200))(t)
	}
	// A confirmed withdrawal is released before its time and never from then on, swept or not, and no stop keeps it.
	lapse := func(c Claimed) {
		settle(countersign.DecisionConfirmed, countersign.DecisionConfirmed, 1001)(c)
		inTime, _ := confirmedWithdrawal(t, s, "released in time", 1000)
		must(s.UpdateMerchant(ctx, "m0", 1002, func(m *Merchant) error { m.ReleaseWithin = 0; return nil }))(t)
		longer, _ := confirmedWithdrawal(t, s, "confirmed since", 1100)
		if by := 1101 + db.Millis((72 * time.Hour).Milliseconds()); inTime.ReleaseBy != 11_001 || longer.ReleaseBy != by {
			t.Errorf("released by %d, and by default %d", inTime.ReleaseBy, longer.ReleaseBy)
		}
		if p := must(s.Release(ctx, inTime.ID, Holder{"a", "core"}, "p", 11_000))(t); p.Duplicate || p.Withdrawal.State != client.WithdrawalReleased {
			t.Errorf("released just in time: %+v", p)
		}
		if swept := must(s.Sweep(ctx, 11_000))(t); len(swept.Lapsed) != 0 {
			t.Errorf("swept early: %+v", swept)
		}
		dbtest.Fails(s.Release(ctx, c.ID, Holder{"a", "core"}, "p", 11_001))(t, db.ErrConflict, "lapsed")
		decisions := len(must(s.Decisions(ctx, 0, 100))(t))
		ok(t, errors.Join(pauseM0(s), freezeAll(s)))
		if swept := must(s.Sweep(ctx, 11_001))(t); !slices.Equal(swept.Lapsed, []string{c.ID}) {
			t.Errorf("swept %+v", swept)
		}
		ok(t, errors.Join(thawAll(s), resumeM0(s)))
		dbtest.Fails(s.Release(ctx, c.ID, Holder{"a", "core"}, "p", 11_001))(t, db.ErrConflict, "lapsed")
		dbtest.Fails(s.BlockWithdrawal(ctx, c.ID, "r", "tok_1", 11_002))(t, db.ErrConflict, "")
		w := must(s.Withdrawal(ctx, c.ID))(t)
		if n := len(must(s.Decisions(ctx, 0, 100))(t)); n != decisions || w.Ended != 11_001 || w.Details.Differs(*details) != "" {
			t.Errorf("%d decisions, were %d; lapsed to %+v", n, decisions, w)
		}
		if list := alarmsOf(t, s, client.AlarmLapsed); !slices.Equal(list, []string{"m0 " + c.ID}) {
			t.Errorf("alarms %q", list)
		}
	}
	const confirmed, declined, expired = countersign.DecisionConfirmed, countersign.DecisionDeclined, countersign.DecisionExpired
	for _, c := range []struct {
		name     string
		end      func(Claimed)
		to       client.WithdrawalState
		decision countersign.Decision
		reason   client.Reason
		at       db.Millis
		callback client.CallbackState
	}{
		{"declined late", settle(declined, declined, 5001), client.WithdrawalDeclined, declined, "declined", 5001, client.CallbackRefused},
		{"expired by its schedule", settle(expired, expired, 1100), client.WithdrawalExpired, expired, client.ReasonDeadline, 1100, client.CallbackExhausted},
		{"confirmed too late, stopped", settle(confirmed, expired, 5000), client.WithdrawalExpired, expired, client.ReasonDeadline, 5000, client.CallbackExhausted},
		{"expired by the sweep, stopped", func(c Claimed) {
			if got := must(s.Sweep(ctx, 4999))(t); len(got.Expired) != 0 {
				t.Errorf("expired early: %+v", got)
			}
			if got := must(s.Sweep(ctx, 5000))(t); len(got.Expired) != 1 || got.Expired[0] != c.ID {
				t.Errorf("swept %+v", got)
			}
			late(c)
		}, client.WithdrawalExpired, expired, client.ReasonDeadline, 5000, client.CallbackExhausted},
		{"cancelled, stopped", func(c Claimed) {
			must(s.CancelWithdrawal(ctx, c.ID, 1100))(t)
			late(c)
		}, client.WithdrawalCancelled, countersign.DecisionCancelled, client.ReasonCancelled, 1100, client.CallbackCancelled},
		{"blocked", func(c Claimed) {
			settle(confirmed, confirmed, 4999)(c)
			if w := block(c, "why"); w.BlockedReason != "why" || w.BlockedBy != "who" || w.Ended != 1200 || !reflect.DeepEqual(block(c, "another"), w) {
				t.Errorf("blocked to %+v", w)
			}
			dbtest.Fails(s.Release(ctx, c.ID, Holder{"a", "core"}, "p", 1500))(t, db.ErrConflict, "blocked")
		}, client.WithdrawalBlocked, confirmed, "confirmed", 4999, client.CallbackAccepted},
		{"lapsed", lapse, client.WithdrawalLapsed, confirmed, "confirmed", 1001, client.CallbackAccepted},
	} {
		w, one := asked(t, s, c.name, 5000, 1000)
		stops := strings.HasSuffix(c.name, "stopped")
		if stops {
			ok(t, errors.Join(pauseM0(s), freezeAll(s)))
		}
		c.end(one)
		if stops {
			ok(t, errors.Join(thawAll(s), resumeM0(s)))
		}
		w = must(s.Withdrawal(ctx, w.ID))(t)
		if w.State != c.to || w.Decision != c.decision || w.Reason != c.reason || w.Decided != c.at || (w.Details != nil) != (c.decision == confirmed) || (w.ReleaseBy != 0) != (c.decision == confirmed) {
			t.Errorf("%s: it is %+v", c.name, w)
		}
		if is := must(s.Callback(ctx, w.ID))(t); is.State != c.callback || is.LastReason != c.reason && c.name != "confirmed too late, stopped" || is.Settled != c.at || is.LeaseUntil != 0 {
			t.Errorf("%s: its callback is %+v", c.name, is)
		}
		checkTold(t, s, w)
		// To cancel it again changes nothing, and what ended otherwise is not cancelled.
		got, err := s.CancelWithdrawal(ctx, w.ID, 9000)
		if is := c.to == client.WithdrawalCancelled; is != (err == nil) || !is && !errors.Is(err, db.ErrConflict) || is && !reflect.DeepEqual(got, w) {
			t.Errorf("%s, then cancelled: %+v, %v", c.name, got, err)
		}
		checkTold(t, s, w)
	}
	// No attempt has begun: the merchant knows nothing of these.
	cancelled := addWithdrawal(t, s, newWithdrawal("not asked", 8000, nil), 6000)
	nobody := "m0." + strings.Repeat("0", 26)
	dbtest.Fails(s.CancelWithdrawal(ctx, nobody, 6000))(t, db.ErrNotFound, "")
	for _, c := range []struct {
		id, reason string
		want       error
	}{{cancelled.ID, "r", db.ErrConflict}, {nobody, "r", db.ErrNotFound}, {cancelled.ID, "", db.ErrInvalid}, {cancelled.ID, "a\x00", db.ErrInvalid}} {
		dbtest.Fails(s.BlockWithdrawal(ctx, c.id, c.reason, "tok_1", 6000))(t, c.want, "")
	}
	expires := addWithdrawal(t, s, newWithdrawal("not asked either", 8000, nil), 6000)
	must(s.CancelWithdrawal(ctx, cancelled.ID, 6100))(t)
	must(s.Sweep(ctx, 8000))(t)
	if w := must(s.Withdrawal(ctx, expires.ID))(t); w.State != client.WithdrawalExpired {
		t.Errorf("it is %s", w.State)
	}
	if list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{Type: countersign.TypeInvalidAddress}, 20, ""); err != nil || len(list) != 7 {
		t.Errorf("%d callbacks of type 5, %v", len(list), err)
	}
}
