package outbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

// alarmsOf returns the alarms of a kind as merchant and subject.
func alarmsOf(t *testing.T, s *Outbox, kind client.AlarmKind) (list []string) {
	t.Helper()
	for _, a := range must(endtest.Alarms(ctx, s))(t) {
		if a.Kind == kind {
			row := a.Merchant + " " + a.Subject
			if a.Ended != 0 {
				row += " ended"
			}
			list = append(list, row)
		}
	}
	return list
}

// raisedOf returns how often a kind was raised.
func raisedOf(t *testing.T, s *Outbox, kind client.AlarmKind) (n int64) {
	t.Helper()
	for _, a := range must(endtest.Alarms(ctx, s))(t) {
		if a.Kind == kind {
			n += a.Number
		}
	}
	return n
}

// testExhaustedAlarm: callbacks that are given up raise one alarm of their merchant, not
// one for each callback, whether an attempt or the deadline ends them.
func testExhaustedAlarm(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	var items []NewCallback
	for i := range 6 {
		items = append(items, deposit("m0", fmt.Sprint(i), 1))
	}
	for i := range 2 {
		late := deposit("m0", fmt.Sprint("late", i), 5000)
		late.Deadline = 3000
		items = append(items, late)
	}
	must(s.Ingest(ctx, items, 1))(t)
	var list []Settlement
	for i, c := range claim(t, s, countersign.LaneNotify, 1000, 6) {
		n := unreached(c, 1000)
		n.State, n.Due, n.Alarm, n.Attempt.Reason = client.CallbackExhausted, 0, client.AlarmExhausted, []client.Reason{client.ReasonTimeout, client.ReasonConnect}[i%2]
		list = append(list, n)
	}
	must(s.Settle(ctx, list, 1000))(t)
	must(s.Settle(ctx, list, 1001))(t) // repeated
	if must(s.Sweep(ctx, 2999))(t); finals(t, s, countersign.LaneNotify)[2] != 6 {
		t.Error("swept early")
	}
	must(s.Sweep(ctx, 3000))(t)
	if n := finals(t, s, countersign.LaneNotify); n[2] != 8 {
		t.Fatalf("ended: %v", n)
	}
	ended, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{TrackingID: "late0"}, 10, "")
	if err != nil || len(ended) != 1 || ended[0].State != client.CallbackExhausted || ended[0].LastReason != client.ReasonDeadline || ended[0].Settled != 3000 {
		t.Fatalf("exhausted: %+v, %v", ended, err)
	}
	// A person who sends it again overrules the deadline.
	if c := must(s.Resend(ctx, ended[0].ID, 4000))(t); c.State != client.CallbackPending || c.Deadline != 0 {
		t.Errorf("resent %+v", c)
	}
	if got := claim(t, s, countersign.LaneNotify, 100_000, 10); len(got) != 1 || got[0].Deadline != db.Never {
		t.Errorf("claimed %+v", got)
	}
	got := must(endtest.Alarms(ctx, s))(t)
	if len(got) != 1 || got[0].Kind != client.AlarmExhausted || got[0].Merchant != "m0" || got[0].Number != 8 || len(got[0].Examples) != 5 || got[0].First != 1000 || got[0].Last != 3000 {
		t.Fatalf("alarms %+v", got)
	}
	for i, text := range got[0].Examples { // the last first
		if reason := []string{" deadline", " deadline", " connect", " timeout", " connect"}[i]; !strings.HasPrefix(text, "m0.") || !strings.HasSuffix(text, reason) {
			t.Errorf("example %d is %q", i, text)
		}
	}
}

// testOverdueAlarm: work that is due and not done raises one alarm, about who waits for longest,
// until nothing waits for half as long; and none during a freeze, about a paused merchant or one
// that is not reached.
func testOverdueAlarm(t *testing.T, s *Outbox) {
	addMerchants(t, s, 4, nil)
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1000), deposit("m1", "b", 2000), deposit("m2", "c", 10), deposit("m3", "d", 20)}, 1))(t)
	exec(t, s, `UPDATE lanes SET failures = 5 WHERE merchant = 'm3'`)
	must(s.SetMerchantState(ctx, "m2", client.MerchantPaused, "a test", 5))(t)
	sweep := func(now db.Millis, want ...string) {
		t.Helper()
		must(s.Sweep(ctx, now))(t)
		if got := alarmsOf(t, s, client.AlarmOverdue); !slices.Equal(got, want) {
			t.Errorf("at %d: alarms %q, want %q", now, got, want)
		}
	}
	const every = minute / 2
	late := 1000 + overdueAfter
	sweep(late - every - 1)
	sweep(late - 1)
	ok(t, freezeAll(s))
	sweep(late + every)
	ok(t, thawAll(s))
	sweep(late + every + 1) // it has just looked
	sweep(late+2*every, "m0 notify")
	accept := func(merchant string, now db.Millis) {
		t.Helper()
		var list []Settlement
		for _, c := range claim(t, s, countersign.LaneNotify, now, 10) {
			n := settlementOf(c)
			if c.Merchant != merchant {
				n = unreached(c, 2000)
				n.Reached = c.Merchant != "m3"
			}
			list = append(list, n)
		}
		must(s.Settle(ctx, list, now))(t)
	}
	accept("m0", late+3*every)
	sweep(late+4*every, "m0 notify") // it stands for m1 too
	accept("m1", late+5*every)
	sweep(late+6*every, "m0 notify ended")
	must(s.Ingest(ctx, []NewCallback{deposit("m1", "e", late)}, late))(t)
	restarted := New(s.DB)
	must(restarted.Sweep(ctx, late+2*overdueAfter))(t) // a process begins with this
	sweep(late+2*overdueAfter-every, "m0 notify ended", "m1 notify")
}
