package outbox

import (
	"fmt"
	"testing"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

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
	if lanesOf(t, s)[0].Failures < BreakerThreshold {
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
	s := openAt(t, endtest.SQLite(End())(t))
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
