package outbox

import (
	"errors"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// ended brings a new deposit to a final state other than accepted.
func ended(t testing.TB, s *Outbox, event string, state client.CallbackState, now db.Millis) Claimed {
	t.Helper()
	one := claimOne(t, s, event, now)
	n := settlementOf(one)
	n.State, n.Counts = state, true
	must(s.Settle(ctx, []Settlement{n}, now))(t)
	return one
}

// testResend: a callback that ended is due at once and its schedule begins anew, and so is one that waits for its next
// attempt; a question keeps its deadline and is asked only once. A filter reaches those that Resend would take.
func testResend(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	refused, exhausted := ended(t, s, "r", client.CallbackRefused, 100), ended(t, s, "e", client.CallbackExhausted, 101)
	waits, accepted := claimOne(t, s, "w", 102), claimOne(t, s, "a", 103)
	again(t, s, waits, 104, dayOf)
	settleAll(t, s, []Claimed{accepted}, 104)
	_, ask := asked(t, s, "ask", 2*dayOf, 105)
	dbtest.Fails(s.Resend(ctx, ask.ID, 105))(t, db.ErrConflict, "is sending")
	again(t, s, ask, 106, dayOf)
	w, decided := asked(t, s, "decided", 50_000, 107)
	must(s.Settle(ctx, []Settlement{answer(decided, countersign.DecisionDeclined, nil)}, 108))(t)
	told := claim(t, s, countersign.LaneNotify, 109, 1) // of that decision
	settleAll(t, s, told, 110)

	for _, c := range []struct {
		f    client.CallbackFilter
		want int64
	}{
		{client.CallbackFilter{}, 4}, {client.CallbackFilter{State: client.CallbackPending}, 2},
		{client.CallbackFilter{State: client.CallbackRefused}, 1}, {client.CallbackFilter{State: client.CallbackAccepted}, 0},
		{client.CallbackFilter{Type: countersign.TypeRequestWithdraw}, 1}, {client.CallbackFilter{TrackingID: "e"}, 1},
		{client.CallbackFilter{Merchant: "m0", TxID: "tx-r", State: client.CallbackExhausted}, 0},
	} {
		if n, err := s.ResendMatching(ctx, nil, c.f, true, 200); err != nil || n != c.want {
			t.Errorf("%+v selects %d, %v, want %d", c.f, n, err, c.want)
		}
	}
	states := map[string]client.CallbackState{refused.ID: client.CallbackRefused, exhausted.ID: client.CallbackExhausted,
		waits.ID: client.CallbackPending}
	for _, byFilter := range []bool{false, true} {
		now := db.Millis(300)
		if byFilter { // all as before
			now = 400
			for _, c := range claim(t, s, countersign.LaneNotify, 350, 3) {
				n := settlementOf(c)
				n.State, n.Due, n.Counts, n.Held = states[c.ID], dayOf, true, true
				must(s.Settle(ctx, []Settlement{n}, 351))(t)
			}
			again(t, s, claim(t, s, countersign.LaneWithdraw, 350, 1)[0], 351, dayOf)
			if n, err := s.ResendMatching(ctx, nil, client.CallbackFilter{}, false, now); err != nil || n != 4 {
				t.Errorf("by filter: %d, %v", n, err)
			}
		}
		for _, c := range []Claimed{refused, exhausted, waits, ask} {
			wake, stop := s.Watch(TopicOf(c.Type.Lane()))
			for range 2 { // the second changes nothing
				got := must(s.Resend(ctx, c.ID, now))(t)
				if got.State != client.CallbackPending || got.Due != now || got.Failed != 0 || got.Settled != 0 || got.Deadline != db.Shown(c.Deadline) {
					t.Errorf("resent: %+v", got)
				}
			}
			if stop(); !byFilter {
				woken(t, wake)
			}
		}
	}
	got := append(claim(t, s, countersign.LaneNotify, 401, 10), claim(t, s, countersign.LaneWithdraw, 401, 10)...)
	for _, c := range got {
		if c.Failed != 0 || c.Held != 0 || c.Attempt != 3 {
			t.Errorf("claimed %+v", c)
		}
	}
	if n := finals(t, s, countersign.LaneNotify); len(got) != 4 || n != [4]int64{2, 0, 0, 0} || lanesOf(t, s)[0].InFlight != 3 {
		t.Errorf("claimed %d; ended: %v", len(got), n)
	}
	for id, want := range map[string]error{got[0].ID: db.ErrConflict, ask.ID: db.ErrConflict, accepted.ID: db.ErrConflict,
		w.Callback: db.ErrConflict, "m0." + strings.Repeat("0", 26): db.ErrNotFound} {
		if _, err := s.Resend(ctx, id, 500); !errors.Is(err, want) {
			t.Errorf("resending %s gives %v", id, err)
		}
	}
}

// again settles one as failed, to be asked again at due.
func again(t testing.TB, s *Outbox, one Claimed, now, due db.Millis) {
	t.Helper()
	n := settlementOf(one)
	n.State, n.Counts, n.Held, n.Due = client.CallbackPending, true, true, due
	must(s.Settle(ctx, []Settlement{n}, now))(t)
}

const dayOf db.Millis = 24 * 3_600_000
