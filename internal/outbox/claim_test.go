package outbox

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

func testClaim(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	for i, due := range []db.Millis{30, 10, 20, 99} {
		must(s.Ingest(ctx, []NewCallback{deposit("m0", fmt.Sprint("t", i), due)}, 5))(t)
	}
	if due := must(s.NextDue(ctx, countersign.LaneNotify, 0))(t); due != 10 {
		t.Errorf("next due at %d, want 10", due)
	}
	for i, l := range must(s.Stats(ctx))(t).Lanes {
		if want := db.Millis(10); (l.OldestDue == want) != (i == 0) || (l.Count == 4) != (i == 0) {
			t.Errorf("the oldest of %s %s is due at %d", l.Lane, l.State, l.OldestDue)
		}
	}
	if got := claim(t, s, countersign.LaneNotify, 9, 10); len(got) != 0 {
		t.Errorf("claimed %d before anything is due", len(got))
	}
	if got := claim(t, s, countersign.LaneWithdraw, 50, 10); len(got) != 0 {
		t.Errorf("claimed %d of the other lane", len(got))
	}
	got := must(s.Claim(ctx, ClaimRequest{Lane: countersign.LaneNotify, Now: 50, LeaseUntil: 1050, Max: 2}))(t)
	if len(got) != 2 || got[0].EventID != "t1" || got[1].EventID != "t2" {
		t.Fatalf("claimed %+v", got)
	}
	c := got[0]
	if c.State != client.CallbackSending || c.Attempt != 1 || c.Failed != 0 || c.LeaseUntil != 1050 || c.MerchantVersion != 1 || c.Withdrawal != nil ||
		len(c.Payload) == 0 || c.TrackingID != "t1" || c.TxID != "tx-t1" || c.Deadline != db.Never || c.Created != 5 || c.Merchant != "m0" {
		t.Errorf("claimed %+v", c)
	}
	kept := must(s.Callback(ctx, c.ID))(t)
	if kept.State != client.CallbackSending || kept.Attempt != 1 || kept.LeaseUntil != 1050 {
		t.Errorf("kept %+v", kept)
	}
	if due := must(s.NextDue(ctx, countersign.LaneNotify, 0))(t); due != 50 {
		t.Errorf("next due at %d, want 50: the lane was served then, and more waits", due)
	}
	if got := claim(t, s, countersign.LaneNotify, 60, 10); len(got) != 1 || got[0].EventID != "t0" {
		t.Errorf("then claimed %+v", got)
	}
	if due := must(s.NextDue(ctx, countersign.LaneNotify, 0))(t); due != 99 {
		t.Errorf("next due at %d, want 99", due)
	}
	late := deposit("m0", "late", 60)
	late.Deadline = 61
	must(s.Ingest(ctx, []NewCallback{late}, 60))(t)
	if got := claim(t, s, countersign.LaneNotify, 61, 10); len(got) != 0 {
		t.Errorf("claimed %d past its deadline", len(got))
	}
	if due := must(s.NextDue(ctx, countersign.LaneNotify, 0))(t); due != 99 {
		t.Errorf("next due at %d, want 99: what is past its deadline waits for the sweep", due)
	}
	must(s.UpdateMerchant(ctx, "m0", 70, func(m *Merchant) error { m.Concurrency = 4; return nil }))(t) // three are in flight
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "more", 70), deposit("m0", "most", 70)}, 70))(t)
	if got := claim(t, s, countersign.LaneNotify, 70, 10); len(got) != 1 || got[0].MerchantVersion != 2 {
		t.Errorf("claimed %+v with one place", got)
	}
	if due := must(s.NextDue(ctx, countersign.LaneNotify, 0))(t); due != db.Never || len(claim(t, s, countersign.LaneNotify, 70, 10)) != 0 {
		t.Errorf("next due at %d while nothing is free", due)
	}
	settleAll(t, s, []Claimed{c}, 80)
	if got := claim(t, s, countersign.LaneNotify, 80, 10); len(got) != 1 {
		t.Errorf("claimed %d with one free", len(got))
	}
	for _, r := range []ClaimRequest{{Max: 0, Now: 1, LeaseUntil: 2}, {Max: 1, Now: 2, LeaseUntil: 2}} {
		if _, err := s.Claim(ctx, r); err == nil {
			t.Errorf("%+v was taken", r)
		}
	}
}

// unreached is a settlement of an exchange that reached nobody.
func unreached(c Claimed, due db.Millis) Settlement {
	n := settlementOf(c)
	n.State, n.Due, n.Reached, n.Counts = client.CallbackPending, due, false, true
	n.Attempt.Result, n.Attempt.Reason = "retry", "connect"
	return n
}

// testClaimShares: where few can be claimed, everybody who waits gets some.
func testClaimShares(t *testing.T, s *Outbox) {
	ids := addMerchants(t, s, 4, nil)
	var items []NewCallback
	for i := range 60 { // m0 has the oldest and the most
		items = append(items, deposit("m0", fmt.Sprint("old", i), 1))
	}
	for i := range 5 {
		for _, id := range ids[1:] {
			items = append(items, deposit(id, fmt.Sprint("new", i), db.Millis(50+i)))
		}
	}
	must(s.Ingest(ctx, items, 1))(t)
	counts := map[string]int{}
	for _, c := range claim(t, s, countersign.LaneNotify, 100, 8) {
		counts[c.Merchant]++
	}
	if fmt.Sprint(counts) != "map[m0:2 m1:2 m2:2 m3:2]" {
		t.Errorf("of 8: %v", counts)
	}
	// What some do not use goes to the others.
	counts = map[string]int{}
	for _, c := range claim(t, s, countersign.LaneNotify, 101, 40) {
		counts[c.Merchant]++
	}
	if fmt.Sprint(counts) != "map[m0:31 m1:3 m2:3 m3:3]" {
		t.Errorf("of 40: %v", counts)
	}
	// One at a time: in turn.
	for _, id := range ids[1:] {
		must(s.Ingest(ctx, []NewCallback{deposit(id, "again", 102), deposit(id, "again2", 102)}, 102))(t)
	}
	var order []string
	for i := range 8 {
		for _, c := range claim(t, s, countersign.LaneNotify, 110+db.Millis(i), 1) {
			order = append(order, c.Merchant)
		}
	}
	slices.Sort(order[:4])
	slices.Sort(order[4:])
	if got := strings.Join(order, " "); got != "m0 m1 m2 m3 m0 m1 m2 m3" {
		t.Errorf("in turn: %s", got)
	}
}

// testClaimPlaces: with a share nobody gets more than that, and those with nothing in flight come first, however long
// the others have waited; but newcomers do not stop those that have something.
func testClaimPlaces(t *testing.T, s *Outbox) {
	ids := addMerchants(t, s, 40, nil)
	var items []NewCallback
	for i := range 20 {
		for _, id := range ids {
			items = append(items, deposit(id, fmt.Sprint(i), 1))
		}
	}
	must(s.Ingest(ctx, items, 1))(t)
	has := map[string]int{}
	take := func(now db.Millis, most, share int) (got []string) {
		t.Helper()
		for _, c := range must(s.Claim(ctx, ClaimRequest{Now: now, LeaseUntil: now + 1000, Max: most, Share: share}))(t) {
			has[c.Merchant]++
			got = append(got, c.Merchant)
		}
		return got
	}
	for i := range 5 { // slow merchants hold all that they may
		for len(take(db.Millis(10+i), 256, 3)) > 0 {
		}
	}
	for _, id := range ids {
		if has[id] != 3 {
			t.Errorf("%s has %d, want 3", id, has[id])
		}
	}
	for share, most := range map[int]db.Millis{1: db.Never, 3: db.Never, 4: 20} {
		if due := must(s.NextDue(ctx, countersign.LaneNotify, share))(t); (due == db.Never) != (most == db.Never) {
			t.Errorf("due at %d for a share of %d", due, share)
		}
	}
	for i := range 20 {
		m := newMerchant(fmt.Sprint("late", i))
		must(s.CreateMerchant(ctx, m, 20))(t)
		must(s.Ingest(ctx, []NewCallback{deposit(m.ID, "a", 20)}, 20))(t)
	}
	if got := take(20, 1, 0); len(got) != 1 || !strings.HasPrefix(got[0], "late") {
		t.Errorf("one place goes to %v", got)
	}
	got := take(30, 16, 5)
	late := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return !strings.HasPrefix(id, "late") })
	if len(late) != 12 || len(got) != 16 {
		t.Errorf("%d of 16 places go to newcomers: %v", len(late), got)
	}
}

// finals returns how many callbacks of a lane were accepted, refused, exhausted and cancelled.
func finals(t testing.TB, s *Outbox, lane countersign.Lane) (n [4]int64) {
	t.Helper()
	for i, l := range must(s.Stats(ctx))(t).Lanes[6*int(lane):][2:6] {
		n[i] = l.Count
	}
	return n
}

func lanesOf(t testing.TB, s *Outbox) []Pace {
	t.Helper()
	return must(db.List(ctx, s, `SELECT `+laneColumns+` FROM lanes ORDER BY merchant, lane`, nil, scanLane))(t)
}

func testGiveBack(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, func(m *Merchant) { m.Concurrency = 2 })
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1), deposit("m0", "b", 1)}, 1))(t)
	got := claim(t, s, countersign.LaneNotify, 10, 2)
	settleAll(t, s, got[1:], 11)
	for range 2 { // the second time changes nothing, nor does one that is settled
		ok(t, s.GiveBack(ctx, got, 12))
	}
	c := must(s.Callback(ctx, got[0].ID))(t)
	if c.State != client.CallbackPending || c.Due != 12 || c.Failed != 0 || c.LeaseUntil != 0 {
		t.Errorf("given back: %+v", c)
	}
	if a := must(s.Attempts(ctx, c.ID))(t); len(a) != 0 {
		t.Errorf("an attempt was kept: %+v", a)
	}
	again := claim(t, s, countersign.LaneNotify, 13, 2)
	if len(again) != 1 || again[0].Attempt != 2 {
		t.Errorf("claimed again: %+v", again)
	}
	if l := lanesOf(t, s)[0]; l.InFlight != 1 {
		t.Errorf("%d in flight", l.InFlight)
	}
	if err := s.GiveBack(ctx, nil, 1); err != nil {
		t.Error(err)
	}
	n := 1
	if s.Dialect().Shared {
		n = 0 // other nodes may live
	}
	if got := must(s.ReclaimAll(ctx, 14))(t); got != n {
		t.Errorf("reclaimed %d, want %d", got, n)
	}
}

// testReadyColumn compares the generated column with Pace.Ready.
func testReadyColumn(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		l := Pace{Active: r.IntN(4) > 0, Concurrency: 1 + r.IntN(3), InFlight: r.IntN(4), Failures: r.IntN(2 * BreakerThreshold),
			NextDue: db.Millis(r.IntN(9)), Served: db.Millis(r.IntN(9)), OpenUntil: db.Millis(r.IntN(9)), RateReady: db.Millis(r.IntN(9))}
		if r.IntN(3) == 0 {
			l.NextDue = db.Never
		}
		exec(t, s, `UPDATE lanes SET active = $1, concurrency = $2, in_flight = $3, failures = $4, next_due = $5, served = $6,
			open_until = $7, rate_ready = $8 WHERE merchant = 'm0' AND lane = 0`, flag(l.Active), l.Concurrency, l.InFlight, l.Failures,
			int64(l.NextDue), int64(l.Served), int64(l.OpenUntil), int64(l.RateReady))
		var got db.Millis
		must(db.One(ctx, s, `SELECT ready FROM lanes WHERE merchant = 'm0' AND lane = 0`, nil, &got))(t)
		if got != l.Ready() {
			t.Fatalf("ready is %d, want %d for %+v", got, l.Ready(), l)
		}
	}
}

// newWithdrawal is a withdrawal with or without details.
func newWithdrawal(callBackID string, deadline db.Millis, details *client.Details) NewWithdrawal {
	return NewWithdrawal{Merchant: "m0", CallBackID: callBackID, TenantUserID: "user", TrackingID: "track-" + callBackID, Business: 3,
		Details: details, Deadline: deadline, Payload: []byte(`{"type":2,"callBackId":"` + callBackID + `"}`)}
}

func someDetails(t testing.TB, amount string) *client.Details {
	t.Helper()
	return &client.Details{Address: "TAddress", ChainName: "TRON", Symbol: "USDT", Amount: must(countersign.ParseAmount(amount))(t)}
}
