package outbox

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// testRepeat: what a merchant has accepted is sent once more, by its id alone; each
// attempt says so, and no filter reaches it, whatever the merchant answers.
func testRepeat(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	one := claimOne(t, s, "one", 100)
	settleAll(t, s, []Claimed{one}, 101)
	settleAll(t, s, []Claimed{claimOne(t, s, "other", 100)}, 101)

	everything := func(states ...client.CallbackState) {
		t.Helper()
		for _, state := range states {
			if n := must(s.ResendMatching(ctx, nil, client.CallbackFilter{Merchant: "m0", State: state}, false, 150))(t); n != 0 {
				t.Errorf("a filter sends %d again", n)
			}
		}
	}
	everything("", client.CallbackAccepted)

	send := func(now db.Millis, state client.CallbackState) {
		t.Helper()
		again := claim(t, s, countersign.LaneNotify, now, 10)
		if len(again) != 1 || again[0].ID != one.ID || !again[0].Repeated {
			t.Fatalf("claimed %+v", again)
		}
		n := settlementOf(again[0])
		n.State, n.Attempt.Result, n.Counts = state, map[bool]client.AttemptResult{true: client.AttemptAccepted, false: client.AttemptRefused}[state == client.CallbackAccepted], state != client.CallbackAccepted
		must(s.Settle(ctx, []Settlement{n}, now+1))(t)
		if c := must(s.Callback(ctx, one.ID))(t); c.State != state || c.Attempt != again[0].Attempt {
			t.Errorf("settled as %+v", c)
		}
	}
	for range 2 { // the second finds it pending
		must(s.Repeat(ctx, one.ID, 200))(t)
	}
	if c := must(s.Callback(ctx, one.ID))(t); c.State != client.CallbackPending || !c.Repeated || c.Attempt != 1 || c.Due != 200 || c.Deadline != 0 {
		t.Errorf("sent again: %+v", c)
	}
	send(200, client.CallbackRefused)
	everything("", client.CallbackRefused, client.CallbackExhausted)
	must(s.Resend(ctx, one.ID, 300))(t) // by its name
	send(300, client.CallbackAccepted)
	everything("", client.CallbackAccepted)
	if !must(s.Repeat(ctx, one.ID, 400))(t) {
		t.Error("not sent a third time")
	}
	send(400, client.CallbackAccepted)

	var repeated []bool
	for _, a := range must(s.Attempts(ctx, one.ID))(t) {
		repeated = append(repeated, a.Repeated)
	}
	if !slices.Equal(repeated, []bool{false, true, true, true}) {
		t.Errorf("repeated: %v", repeated)
	}
	if list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{}, 100, ""); err != nil || len(list) != 2 {
		t.Errorf("%d callbacks, %v: one has two accepted attempts", len(list), err)
	}
	if n := finals(t, s, countersign.LaneNotify); n != [4]int64{2, 0, 0, 0} || lanesOf(t, s)[0].InFlight != 0 {
		t.Errorf("ended: %v", n)
	}

	w, ask := asked(t, s, "cb", 50_000, 500)
	must(s.Settle(ctx, []Settlement{answer(ask, countersign.DecisionConfirmed, someDetails(t, "1"))}, 510))(t)
	for id, want := range map[string]error{w.Callback: db.ErrConflict, "m0." + strings.Repeat("0", 26): db.ErrNotFound} {
		if is, err := s.Repeat(ctx, id, 520); !errors.Is(err, want) || is {
			t.Errorf("%s gives %v, %v", id, is, err)
		}
	}
}
