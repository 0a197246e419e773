package outbox

import (
	"fmt"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

func testLostLeases(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	lost := claimOne(t, s, "a", 100) // until 1100
	kept := claimOne(t, s, "b", 200) // until 1200
	if got := must(s.Sweep(ctx, 1099))(t); len(got.Lost) != 0 {
		t.Errorf("lost too early: %+v", got)
	}
	got := must(s.Sweep(ctx, 1100))(t)
	if len(got.Lost) != 1 || got.Lost[0] != lost.ID || got.More {
		t.Errorf("swept %+v", got)
	}
	c := must(s.Callback(ctx, lost.ID))(t)
	if c.State != client.CallbackPending || c.Due != 1100 || c.Failed != 0 || c.Attempt != 1 || c.LastReason != client.ReasonLost {
		t.Errorf("kept %+v", c)
	}
	if l := lanesOf(t, s)[0]; l.InFlight != 1 || l.Failures != 0 {
		t.Errorf("the lane has %+v", l)
	}
	n := 1
	if s.Dialect().Shared {
		n = 0 // other nodes may live
	}
	if got := must(s.ReclaimAll(ctx, 1150))(t); got != n {
		t.Errorf("reclaimed %d, want %d", got, n)
	}
	if c := must(s.Callback(ctx, kept.ID))(t); n == 1 && (c.State != client.CallbackPending || c.Due != 1150) {
		t.Errorf("reclaimed %+v", c)
	}
}

func testDeadlines(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	ends := deposit("m0", "ends", 5000)
	ends.Deadline = 2000
	must(s.Ingest(ctx, []NewCallback{ends, deposit("m0", "stays", 5000)}, 1))(t)
	if must(s.Sweep(ctx, 1999))(t); finals(t, s, countersign.LaneNotify)[2] != 0 {
		t.Error("swept early")
	}
	must(s.Sweep(ctx, 2000))(t)
	list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{State: client.CallbackExhausted}, 10, "")
	if err != nil || len(list) != 1 || list[0].EventID != "ends" || list[0].LastReason != client.ReasonDeadline || list[0].Settled != 2000 {
		t.Fatalf("exhausted: %+v, %v", list, err)
	}
	// A person who sends it again overrules the deadline.
	if c := must(s.Resend(ctx, list[0].ID, 3000))(t); c.State != client.CallbackPending || c.Deadline != 0 {
		t.Errorf("resent %+v", c)
	}
	if got := claim(t, s, countersign.LaneNotify, 3000, 10); len(got) != 1 || got[0].Deadline != db.Never {
		t.Errorf("claimed %+v", got)
	}
}

// testRepairs breaks what a crash between a commit and its touch would break.
func testRepairs(t *testing.T, s *Outbox) {
	ids := addMerchants(t, s, 30, nil)
	for i, id := range ids {
		must(s.Ingest(ctx, []NewCallback{deposit(id, "a", 10+db.Millis(i))}, 1))(t)
	}
	exec(t, s, `UPDATE lanes SET next_due = 4611686018427387904 WHERE merchant <> 'm5'`)
	exec(t, s, `UPDATE lanes SET next_due = 3 WHERE merchant = 'm5'`) // too early does no harm
	c, stop := s.Watch(TopicOf(countersign.LaneNotify))
	defer stop()
	must(s.Sweep(ctx, 5))(t)
	woken(t, c)
	claimed := 0
	for got := claim(t, s, countersign.LaneNotify, 100, 100); len(got) > 0; got = claim(t, s, countersign.LaneNotify, 100, 100) {
		claimed += len(got) // of so many merchants at once
	}
	if claimed != 30 {
		t.Errorf("claimed %d", claimed)
	}
	must(s.Sweep(ctx, 6))(t)
	asleep(t, c) // nothing was wrong
}

// testClockBack sets the clock back by an hour: what was claimed and broken by
// the old time does not keep a merchant waiting for that hour.
func testClockBack(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, func(m *Merchant) { m.RatePerSecond = 10 })
	const hour = 3_600_000
	then, now := db.Millis(2*hour), db.Millis(hour)
	for i := range 2 * BreakerThreshold {
		must(s.Ingest(ctx, []NewCallback{deposit("m0", fmt.Sprint(i), 1)}, 1))(t)
	}
	for i := range BreakerThreshold {
		at := then + db.Millis(i)*100
		for _, c := range claim(t, s, countersign.LaneNotify, at, 1) {
			must(s.Settle(ctx, []Settlement{unreached(c, 1)}, at))(t)
		}
	}
	if len(must(s.breakers())(t)) != 1 {
		t.Fatal("the breaker is closed")
	}
	if got := claim(t, s, countersign.LaneNotify, now, 10); len(got) != 0 {
		t.Fatalf("claimed %d", len(got))
	}
	must(s.Sweep(ctx, now))(t)
	if got := claim(t, s, countersign.LaneNotify, now, 10); len(got) != 1 {
		t.Errorf("claimed %d, want the one that tries whether the merchant is back", len(got))
	}
}

// testClockFarAhead: what a clock that was a year ahead made due then is due now; what its schedule makes due in a week
// is not.
func testClockFarAhead(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	const day = 24 * 3_600_000
	for merchant, dues := range map[string][]db.Millis{"m0": {365 * day, 366 * day, 7 * day}, "m1": {7 * day}} {
		for i, due := range dues {
			must(s.Ingest(ctx, []NewCallback{deposit(merchant, fmt.Sprint(i), due)}, 1))(t)
		}
	}
	must(s.Sweep(ctx, 1000))(t)
	if got := claim(t, s, countersign.LaneNotify, 1000, 10); len(got) != 2 || got[0].Merchant != "m0" || got[1].Merchant != "m0" {
		t.Errorf("claimed %+v, want the two of m0", got)
	}
	c, stop := s.Watch(TopicOf(countersign.LaneNotify))
	defer stop()
	must(s.Sweep(ctx, 1001))(t)
	asleep(t, c) // nothing was wrong
}

// TestSweepIsBounded: a sweep that finds much does some and says so.
func TestSweepIsBounded(t *testing.T) {
	s := openAt(t, dialects[0].url(t))
	addMerchants(t, s, 1, func(m *Merchant) { m.Concurrency = 5000 })
	var items []NewCallback
	for i := range sweepMost + 20 {
		items = append(items, deposit("m0", fmt.Sprint(i), 1))
	}
	must(s.Ingest(ctx, items, 1))(t)
	for len(claim(t, s, countersign.LaneNotify, 10, 300)) > 0 {
	}
	first := must(s.Sweep(ctx, 5000))(t)
	second := must(s.Sweep(ctx, 5000))(t)
	if len(first.Lost) != sweepMost || !first.More || len(second.Lost) != 20 || second.More {
		t.Errorf("first %d, %v; second %d, %v", len(first.Lost), first.More, len(second.Lost), second.More)
	}
	for i := range items { // made due by a clock that was a year ahead
		items[i] = deposit("m0", fmt.Sprint("ahead", i), 365*24*3_600_000)
	}
	must(s.Ingest(ctx, items, 1))(t)
	if ahead, rest := must(s.Sweep(ctx, 5000))(t), must(s.Sweep(ctx, 5000))(t); !ahead.More || rest.More {
		t.Errorf("far ahead: first %+v; second %+v", ahead, rest)
	}
	for len(claim(t, s, countersign.LaneNotify, 6000, 300)) > 0 {
	}
	if n := must(s.ReclaimAll(ctx, 6001))(t); n != 2*(sweepMost+20) {
		t.Errorf("reclaimed %d", n)
	}
}
