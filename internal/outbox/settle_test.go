package outbox

import (
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

// claimOne ingests one deposit and claims it at now.
func claimOne(t testing.TB, s *Outbox, event string, now db.Millis) Claimed {
	t.Helper()
	must(s.Ingest(ctx, []NewCallback{deposit("m0", event, now)}, now))(t)
	got := claim(t, s, countersign.LaneNotify, now, 100)
	if len(got) != 1 || got[0].EventID != event {
		t.Fatalf("claimed %+v, want %s", got, event)
	}
	return got[0]
}

// testSettle: a callback is in the state of its settlement, and has its attempt as it was.
func testSettle(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	for _, c := range []struct {
		state  client.CallbackState
		counts bool
		failed int
		due    db.Millis
	}{
		{client.CallbackAccepted, false, 0, 0},
		{client.CallbackAccepted, true, 1, 0},
		{client.CallbackRefused, true, 1, 0},
		{client.CallbackExhausted, true, 1, 0},
		{client.CallbackPending, true, 1, 5000},
		{client.CallbackPending, false, 0, 6000}, // a hold
	} {
		one := claimOne(t, s, fmt.Sprint(c.state, c.counts), 100)
		n := settlementOf(one)
		n.State, n.Counts, n.Held, n.Due, n.Attempt.Reason, n.Attempt.DurationMs = c.state, c.counts, c.due == 6000, c.due, "some_reason", 3_600_000
		if c.counts {
			n.Attempt.HTTPStatus, n.Attempt.ErrCode, n.Attempt.ResponseHash = 502, new(int64(-3001)), ""
		}
		done := must(s.Settle(ctx, []Settlement{n}, 150))(t)
		if done[0] != (Settled{Applied: true}) {
			t.Errorf("%s: %+v", c.state, done[0])
		}
		got := must(s.Callback(ctx, one.ID))(t)
		settled := db.Millis(150)
		if c.state == client.CallbackPending {
			settled = 0
		}
		if got.State != c.state || got.Attempt != 1 || got.Failed != c.failed || got.LeaseUntil != 0 || got.LastReason != "some_reason" ||
			got.Settled != settled || c.due != 0 && got.Due != c.due {
			t.Errorf("%s: kept %+v", c.state, got)
		}
		n.Attempt.Text = n.Attempt.Reason.Text()
		if got := must(s.Attempts(ctx, one.ID))(t); !reflect.DeepEqual(got, []Attempt{n.Attempt}) {
			t.Errorf("%s: kept\n%+v, want\n%+v", c.state, got, n.Attempt)
		}
	}
	if due := must(s.NextDue(ctx, countersign.LaneNotify, 0))(t); due != 5000 {
		t.Errorf("next due at %d, want 5000", due)
	}
	if n := finals(t, s, countersign.LaneNotify); n != [4]int64{2, 1, 1, 0} || lanesOf(t, s)[0].InFlight != 0 {
		t.Errorf("ended: %v", n)
	}
	again := claim(t, s, countersign.LaneNotify, 7000, 10)
	if len(again) != 2 || again[0].Attempt != 2 || again[0].Failed != 1 || again[1].Failed != 0 || again[0].Held != 0 || again[1].Held != 1 || again[0].LastReason != "some_reason" {
		t.Errorf("claimed again %+v", again)
	}
	held := settlementOf(again[1])
	held.State, held.Held, held.Due = client.CallbackPending, true, 8000
	must(s.Settle(ctx, []Settlement{held, settlementOf(again[0])}, 7500))(t)
	if got := must(s.Callback(ctx, again[0].ID))(t); got.State != client.CallbackAccepted || got.Failed != 1 {
		t.Errorf("accepted after a failure: %+v", got)
	}
	if list := must(s.Attempts(ctx, held.CallbackID))(t); len(list) != 2 || list[0].Number != 1 || list[1].Number != 2 {
		t.Errorf("attempts %+v", list)
	}
	third := claim(t, s, countersign.LaneNotify, 8000, 10)
	if len(third) != 1 || third[0].Held != 2 {
		t.Fatalf("after two holds %+v", third)
	}
	// Text that no database takes must not keep a settlement from being made.
	bad := settlementOf(third[0])
	bad.Attempt.Reason, bad.Attempt.RequestHash = "a\x00b\xff", "no hex"
	if done := must(s.Settle(ctx, []Settlement{bad}, 8100))(t); !done[0].Applied {
		t.Error("not applied")
	}
	fresh := must(s.Ingest(ctx, []NewCallback{deposit("m0", "b", 1)}, 1))(t)
	if list := must(s.Attempts(ctx, fresh[0].ID))(t); len(list) != 0 {
		t.Errorf("a new callback has the attempts %+v", list)
	}
	dbtest.Fails(s.Attempts(ctx, "m0."+strings.Repeat("0", 26)))(t, db.ErrNotFound, "")
	if done, err := s.Settle(ctx, nil, 1); err != nil || len(done) != 0 {
		t.Errorf("nothing gives %v, %v", done, err)
	}
}

func testSettleGuarded(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	lost, good, wrong := claimOne(t, s, "lost", 100), claimOne(t, s, "good", 200), claimOne(t, s, "wrong", 300)
	if swept := must(s.Sweep(ctx, 1150))(t); len(swept.Lost) != 1 || swept.Lost[0] != lost.ID {
		t.Fatalf("swept %+v", swept)
	}
	if c := must(s.Callback(ctx, lost.ID))(t); c.State != client.CallbackPending || c.Due != 1150 || c.Failed != 0 || c.Attempt != 1 || c.LastReason != client.ReasonLost {
		t.Errorf("lost: %+v", c)
	}
	if l := lanesOf(t, s)[0]; l.Failures != 0 {
		t.Errorf("the lane has %+v", l)
	}
	second := claim(t, s, countersign.LaneNotify, 1160, 10)[0]
	if second.ID != lost.ID || second.Attempt != 2 {
		t.Fatalf("claimed %+v", second)
	}
	ahead := settlementOf(wrong)
	ahead.Attempt.Number = 7
	nobody := settlementOf(good)
	nobody.CallbackID = "m0." + strings.Repeat("0", 26)
	// The one that lost its lease comes first, the right ones after it, and one of them twice.
	done := must(s.Settle(ctx, []Settlement{settlementOf(lost), ahead, nobody, settlementOf(good), settlementOf(second), settlementOf(second)}, 1170))(t)
	for i, applied := range []bool{false, false, false, true, true, false} {
		if done[i] != (Settled{Applied: applied}) {
			t.Errorf("settlement %d: %+v", i, done[i])
		}
	}
	if c := must(s.Callback(ctx, wrong.ID))(t); c.State != client.CallbackSending {
		t.Errorf("a wrong attempt number settled %+v", c)
	}
	attempts := must(s.Attempts(ctx, lost.ID))(t)
	if len(attempts) != 2 || !attempts[0].Late || attempts[0].Result != "accepted" || attempts[1].Late {
		t.Errorf("attempts %+v", attempts)
	}
	if c := must(s.Callback(ctx, lost.ID))(t); c.State != client.CallbackAccepted || c.Attempt != 2 || c.Settled != 1170 {
		t.Errorf("kept %+v", c)
	}
	if n := finals(t, s, countersign.LaneNotify); n[0] != 2 || lanesOf(t, s)[0].InFlight != 1 {
		t.Errorf("ended: %v", n)
	}
}

func testSettleRepeated(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	var list []Settlement
	for i, state := range []client.CallbackState{client.CallbackAccepted, client.CallbackRefused, client.CallbackPending} {
		n := settlementOf(claimOne(t, s, string(state), 100+db.Millis(i)))
		n.State, n.Due, n.Alarm, n.OpenFailure = state, 9000, "not_understood", true
		list = append(list, n)
	}
	first := must(s.Settle(ctx, list, 200))(t)
	lane := lanesOf(t, s)[0]
	for range 2 {
		if again := must(s.Settle(ctx, list, 300))(t); !reflect.DeepEqual(again, first) {
			t.Errorf("again gives %+v", again)
		}
	}
	if l := lanesOf(t, s)[0]; l != lane {
		t.Errorf("the lane went from %+v to %+v", lane, l)
	}
	if got := must(endtest.Alarms(ctx, s))(t); len(got) != 1 || got[0].Number != 3 {
		t.Errorf("alarms %+v", got)
	}
	var n int
	if _, err := db.One(ctx, s, `SELECT COUNT(*) FROM open_failures`, nil, &n); err != nil || n != 3 {
		t.Errorf("%d opening failures counted, %v", n, err)
	}
	// After the next claim, the old settlement still changes nothing.
	next := claim(t, s, countersign.LaneNotify, 9000, 10)
	if again := must(s.Settle(ctx, list, 9001))(t); !reflect.DeepEqual(again, first) {
		t.Errorf("later gives %+v", again)
	}
	if c := must(s.Callback(ctx, next[0].ID))(t); c.State != client.CallbackSending || c.Attempt != 2 {
		t.Errorf("a repeated settlement made it %+v", c)
	}
}

func testOpenFailures(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	const hour = 3_600_000
	now := db.Millis(10 * hour)
	n := 0
	fail := func() Settled {
		n++
		f := settlementOf(claimOne(t, s, fmt.Sprint(n), now))
		f.State, f.Due, f.OpenFailure, f.Counts = client.CallbackPending, db.Never, true, true
		return must(s.Settle(ctx, []Settlement{f}, now))(t)[0]
	}
	for i := range OpenFailureLimit - 1 {
		if got := fail(); !got.Applied || got.Paused || got.OpenFailures != i+1 {
			t.Fatalf("failure %d: %+v", n, got)
		}
	}
	now += hour // the first ones no longer count
	for i := range OpenFailureLimit - 1 {
		if got := fail(); got.Paused || got.OpenFailures != i+1 {
			t.Fatalf("failure %d: %+v", n, got)
		}
	}
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "waiting", now+1)}, now))(t)
	// Another node has one in flight, which is settled after the pause.
	n++
	flying := settlementOf(claimOne(t, s, fmt.Sprint(n), now))
	flying.State, flying.Due, flying.OpenFailure, flying.Counts = client.CallbackPending, db.Never, true, true
	if got := fail(); !got.Paused || got.OpenFailures != OpenFailureLimit {
		t.Fatalf("failure %d: %+v", n, got)
	}
	if got := must(s.Settle(ctx, []Settlement{flying}, now))(t)[0]; got.Paused || got.OpenFailures != OpenFailureLimit+1 {
		t.Fatalf("a failure after the pause: %+v", got)
	}
	m := must(s.Merchant(ctx, "m0"))(t)
	if m.State != client.MerchantPaused || m.PausedReason != "open failures" || m.Version != 2 {
		t.Errorf("merchant %s, %q, version %d", m.State, m.PausedReason, m.Version)
	}
	if got := claim(t, s, countersign.LaneNotify, now+5, 10); len(got) != 0 {
		t.Errorf("claimed %d of a paused merchant", len(got))
	}
	alarms := must(endtest.Alarms(ctx, s))(t)
	if len(alarms) != 1 || alarms[0].Kind != client.AlarmOpenFailures || alarms[0].Merchant != "m0" || alarms[0].First != now {
		t.Errorf("alarms %+v", alarms)
	}
	// Resumed, it has a clean record.
	must(s.SetMerchantState(ctx, "m0", client.MerchantActive, "", now))(t)
	now += 10
	settleAll(t, s, claim(t, s, countersign.LaneNotify, now, 10), now)
	if got := fail(); got.Paused {
		t.Error("paused again by the first failure after it was resumed")
	}
}
