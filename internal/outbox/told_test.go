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

// toldOf lists the events of the callbacks that f selects, sorted.
func toldOf(t *testing.T, s *Outbox, f client.CallbackFilter, of ...string) string {
	t.Helper()
	list, _, err := s.Callbacks(ctx, of, f, 100, "")
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for _, c := range list {
		events = append(events, c.EventID)
	}
	slices.Sort(events)
	return strings.Join(events, " ")
}

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
		if len(again) != 1 || again[0].ID != one.ID || again[0].Told != client.ToldAgain {
			t.Fatalf("claimed %+v", again)
		}
		n := settlementOf(again[0])
		n.State, n.Attempt.Result, n.Counts = state, map[bool]client.AttemptResult{true: client.AttemptAccepted, false: client.AttemptRefused}[state == client.CallbackAccepted], state != client.CallbackAccepted
		must(s.Settle(ctx, []Settlement{n}, now+1))(t)
		if c := must(s.Callback(ctx, one.ID))(t); c.State != state || c.Attempt != again[0].Attempt {
			t.Errorf("settled as %+v", c)
		}
	}
	ids := []string{one.ID}
	for range 2 { // the second finds it pending
		must(s.Repeat(ctx, ids, 200))(t)
	}
	if c := must(s.Callback(ctx, one.ID))(t); c.State != client.CallbackPending || c.Told != client.ToldAgain || c.Attempt != 1 || c.Due != 200 || c.Deadline != 0 {
		t.Errorf("sent again: %+v", c)
	}
	if got := toldOf(t, s, client.CallbackFilter{Told: client.ToldAgain}); got != "one" {
		t.Errorf("listed: %q", got)
	}
	send(200, client.CallbackRefused)
	everything("", client.CallbackRefused, client.CallbackExhausted)
	must(s.Resend(ctx, one.ID, 300))(t) // by its name
	send(300, client.CallbackAccepted)
	everything("", client.CallbackAccepted)
	if n := must(s.Repeat(ctx, ids, 400))(t); n != 1 {
		t.Errorf("%d sent a third time", n)
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
	if l := lanesOf(t, s)[0]; l.Final != [Finals]int64{2, 0, 0, 0} || l.InFlight != 0 {
		t.Errorf("the lane has %+v", l)
	}

	w, ask := asked(t, s, "cb", 50_000, 500)
	must(s.Settle(ctx, []Settlement{answer(ask, countersign.DecisionConfirmed, someDetails(t, "1"))}, 510))(t)
	for id, want := range map[string]error{w.Callback: db.ErrConflict, "m0." + strings.Repeat("0", 26): db.ErrNotFound} {
		if n, err := s.Repeat(ctx, []string{one.ID, id}, 520); !errors.Is(err, want) || n != 0 {
			t.Errorf("%s gives %d, %v", id, n, err)
		}
	}
	if c := must(s.Callback(ctx, one.ID))(t); c.State != client.CallbackAccepted {
		t.Errorf("a call that failed changed %+v", c)
	}
}

// testPossiblyTold: after a restore all that the backup has not as accepted is marked,
// until the merchant accepts it or the restore is reconciled.
func testPossiblyTold(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	accepted := claimOne(t, s, "accepted", 100)
	settleAll(t, s, []Claimed{accepted}, 101)
	ended(t, s, "refused", client.CallbackRefused, 102)
	sending := claimOne(t, s, "sending", 103)
	again := claimOne(t, s, "again", 104)
	settleAll(t, s, []Claimed{again}, 105)
	must(s.Repeat(ctx, []string{again.ID}, 106))(t)
	must(s.Ingest(ctx, []NewCallback{deposit("m1", "waits", 5000)}, 107))(t)
	addWithdrawal(t, s, newWithdrawal("cb", 9000, nil), 108)

	must(s.Restored(ctx, 0, 200))(t)
	must(s.Ingest(ctx, []NewCallback{deposit("m1", "new", 5000)}, 210))(t)
	for _, c := range []struct {
		f    client.CallbackFilter
		want string
		of   []string
	}{
		{client.CallbackFilter{Told: client.ToldPossibly}, "refused sending waits", nil},
		{client.CallbackFilter{Told: client.ToldPossibly, Merchant: "m0"}, "refused sending", nil},
		{client.CallbackFilter{Told: client.ToldPossibly}, "waits", []string{"m1", "none"}},
		{client.CallbackFilter{Told: client.ToldPossibly, State: client.CallbackPending}, "waits", nil},
		{client.CallbackFilter{Told: client.ToldPossibly, TrackingID: "waits"}, "waits", nil},
		{client.CallbackFilter{Told: client.ToldPossibly, TxID: "tx-new"}, "", nil},
		{client.CallbackFilter{Told: client.ToldPossibly, Type: countersign.TypeRequestWithdraw}, "", nil},
		{client.CallbackFilter{Told: client.ToldAgain}, "again", nil},
	} {
		if got := toldOf(t, s, c.f, c.of...); got != c.want {
			t.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
	settleAll(t, s, []Claimed{sending}, 220)
	if c := must(s.Callback(ctx, sending.ID))(t); c.State != client.CallbackAccepted || c.Told != "" {
		t.Errorf("accepted since: %+v", c)
	}
	if open := must(s.Reconcile(ctx, 300))(t); !open {
		t.Error("nothing was open")
	}
	if got := toldOf(t, s, client.CallbackFilter{Told: client.ToldPossibly}) + "/" + toldOf(t, s, client.CallbackFilter{Told: client.ToldAgain}); got != "/again" {
		t.Errorf("reconciled: %q", got)
	}
}
