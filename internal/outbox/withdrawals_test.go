package outbox

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
)

func addWithdrawal(t testing.TB, s *Outbox, n NewWithdrawal, now db.Millis) Withdrawal {
	t.Helper()
	w, duplicate, err := s.CreateWithdrawal(ctx, n, now)
	if err != nil || duplicate {
		t.Fatalf("duplicate %v, %v", duplicate, err)
	}
	return w
}

func testWithdrawals(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	n := newWithdrawal("cb1", 5000, someDetails(t, "2.500"))
	w := addWithdrawal(t, s, n, 100)
	want := Withdrawal{Withdrawal: client.Withdrawal{ID: w.ID, Merchant: "m0", CallBackID: "cb1", Callback: w.ID, TenantUserID: "user", TrackingID: "track-cb1", Business: 3,
		Ordered: n.Details, State: client.WithdrawalAwaiting, Deadline: 5000, Created: 100}}
	for name, got := range map[string]Withdrawal{
		"made": w, "by id": must(s.Withdrawal(ctx, w.ID))(t), "by callBackId": must(s.WithdrawalByCallBackID(ctx, "m0", "cb1"))(t),
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want)
		}
	}
	c := must(s.Callback(ctx, w.Callback))(t)
	if c.Type != countersign.TypeRequestWithdraw || c.EventID != "cb1" || c.CallBackID != "cb1" || c.TrackingID != "track-cb1" || c.Due != 100 ||
		c.Deadline != 5000 || string(c.Payload) != string(n.Payload) || c.State != client.CallbackPending {
		t.Errorf("its callback is %+v", c)
	}
	if got := claim(t, s, countersign.LaneNotify, 100, 10); len(got) != 0 {
		t.Errorf("claimed %d in the wrong lane", len(got))
	}
	got := claim(t, s, countersign.LaneWithdraw, 100, 10)
	if len(got) != 1 || got[0].Withdrawal == nil || !reflect.DeepEqual(*got[0].Withdrawal, want) {
		t.Errorf("claimed %+v", got)
	}

	// Again: the deadline and the way an amount is written are no content.
	again := n
	again.Deadline, again.Details = 9000, someDetails(t, "2.5")
	if w, duplicate, err := s.CreateWithdrawal(ctx, again, 200); err != nil || !duplicate || w.ID != want.ID || w.Deadline != 5000 {
		t.Errorf("again gives %+v, %v, %v", w, duplicate, err)
	}
	other := n
	other.Merchant = "m1"
	addWithdrawal(t, s, other, 200)
	bare := addWithdrawal(t, s, newWithdrawal("cb2", 5000, nil), 200)
	if bare.Ordered != nil || bare.Details != nil {
		t.Errorf("without details: %+v", bare)
	}
	for member, change := range map[string]func(*NewWithdrawal){
		"tenantUserId": func(n *NewWithdrawal) { n.TenantUserID = "another" },
		"trackingId":   func(n *NewWithdrawal) { n.TrackingID = "another" },
		"business":     func(n *NewWithdrawal) { n.Business++ },
		"details":      func(n *NewWithdrawal) { n.Details = nil },
		"amount":       func(n *NewWithdrawal) { n.Details = someDetails(t, "2.51") },
	} {
		c := n
		change(&c)
		_, _, err := s.CreateWithdrawal(ctx, c, 300)
		var conflict *db.ConflictError
		if !errors.As(err, &conflict) || conflict.Member != "callBackId" || !strings.Contains(conflict.Reason, "with another "+member+":") {
			t.Errorf("another %s: %v", member, err)
		}
	}
	dearer, second := newWithdrawal("cb2", 5000, n.Details), newWithdrawal("second", 5000, nil)
	second.TrackingID = n.TrackingID
	for member, c := range map[string]NewWithdrawal{"callBackId": dearer, "trackingId": second} {
		var conflict *db.ConflictError
		if _, _, err := s.CreateWithdrawal(ctx, c, 300); !errors.As(err, &conflict) || conflict.Member != member {
			t.Errorf("another %s: %v", member, err)
		}
	}
	for _, id := range []string{"", "m0." + strings.Repeat("0", 26), "m1" + w.ID[2:]} {
		dbtest.Fails(s.Withdrawal(ctx, id))(t, db.ErrNotFound, "")
	}
	for _, id := range []string{"nothing", "second", "\x00", "\xff"} {
		dbtest.Fails(s.WithdrawalByCallBackID(ctx, "m0", id))(t, db.ErrNotFound, "")
	}
}

// answer is the settlement of a type 2 callback with a decision.
func answer(c Claimed, d countersign.Decision, details *client.Details) Settlement {
	n := settlementOf(c)
	n.Decision, n.Attempt.Reason, n.MerchantVersion = d, client.Reason(d), c.MerchantVersion
	if d == countersign.DecisionDeclined {
		n.State = client.CallbackRefused
	}
	if details != nil {
		n.Details = *details
	}
	return n
}

// asked makes a withdrawal and claims its callback, with a lease of 1,000 ms.
func asked(t testing.TB, s *Outbox, callBackID string, deadline, now db.Millis) (Withdrawal, Claimed) {
	t.Helper()
	w := addWithdrawal(t, s, newWithdrawal(callBackID, deadline, nil), now)
	for _, c := range claim(t, s, countersign.LaneWithdraw, now, 100) {
		if c.ID == w.ID {
			return w, c
		}
	}
	t.Fatal("the callback was not claimed")
	return w, Claimed{}
}

func testFirstDecision(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	details := someDetails(t, "2.5")
	const deadline = 50_000
	for i, c := range []struct {
		name    string
		first   countersign.Decision
		details *client.Details
		then    countersign.Decision
		other   *client.Details
		differs bool
	}{
		{"the same", countersign.DecisionConfirmed, details, countersign.DecisionConfirmed, someDetails(t, "2.50"), false},
		{"declined after", countersign.DecisionConfirmed, details, countersign.DecisionDeclined, nil, true},
		{"other amount after", countersign.DecisionConfirmed, details, countersign.DecisionConfirmed, someDetails(t, "2.51"), true},
		{"confirmed after", countersign.DecisionDeclined, nil, countersign.DecisionConfirmed, details, true},
		{"declined twice", countersign.DecisionDeclined, nil, countersign.DecisionDeclined, nil, false},
		{"no decision after", countersign.DecisionConfirmed, details, countersign.DecisionNone, nil, false},
	} {
		now := db.Millis(i*3000 + 1000)
		raised := raisedOf(t, s, client.AlarmAnswerDiffers)
		w, stale := asked(t, s, fmt.Sprint("cb", i), deadline, now)
		must(s.Sweep(ctx, now+1000))(t) // its lease is lost, another attempt begins
		current := claim(t, s, countersign.LaneWithdraw, now+1000, 1)[0]
		done := must(s.Settle(ctx, []Settlement{answer(current, c.first, c.details)}, now+1500))(t)[0]
		if done != (Settled{Applied: true, Decision: c.first}) {
			t.Fatalf("%s: first %+v", c.name, done)
		}
		decided := must(s.Withdrawal(ctx, w.ID))(t)
		if string(decided.State) != string(c.first) || decided.Decision != c.first || decided.Decided != now+1500 || decided.Reason != client.Reason(c.first) ||
			!reflect.DeepEqual(decided.Details, c.details) {
			t.Errorf("%s: decided %+v", c.name, decided)
		}
		late := answer(stale, c.then, c.other)
		for repeat := range 2 {
			done := must(s.Settle(ctx, []Settlement{late}, now+1600))(t)[0]
			want := Settled{Late: c.then != "", Differs: c.differs}
			if repeat == 1 {
				want = Settled{}
			}
			if done != want {
				t.Errorf("%s: late, time %d: %+v, want %+v", c.name, repeat, done, want)
			}
		}
		if got := must(s.Withdrawal(ctx, w.ID))(t); !reflect.DeepEqual(got, decided) {
			t.Errorf("%s: a late answer made it\n%+v from\n%+v", c.name, got, decided)
		}
		got := must(endtest.Alarms(ctx, s))(t)
		if n := raisedOf(t, s, client.AlarmAnswerDiffers) - raised; c.differs != (n == 1) || c.differs && got[0].Subject != w.ID+" answer_differs" || len(got) > 1 {
			t.Errorf("%s: %d alarms more: %+v", c.name, n, got)
		}
	}
	if got := must(s.Decisions(ctx, 0, 100))(t); len(got) != 6 {
		t.Errorf("%d decisions in the feed", len(got))
	}
}
