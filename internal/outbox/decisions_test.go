package outbox

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/internal/db"
)

// testFeedNoGaps decides from many sides at once while readers follow the feed:
// each sees 1, 2, 3, … and every decision.
func testFeedNoGaps(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	const total, deciders = 48, 4
	ids := map[string]bool{}
	for i := range total {
		deadline := db.Millis(900_000)
		if i%4 == 3 {
			deadline = 5000 // for the sweep
		}
		ids[addWithdrawal(t, s, newWithdrawal(fmt.Sprint("cb", i), deadline, nil), 100).ID] = true
	}
	claimed := must(s.Claim(ctx, ClaimRequest{Lane: countersign.LaneWithdraw, Now: 100, LeaseUntil: 900_000, Max: total}))(t)
	if len(claimed) != total {
		t.Fatalf("claimed %d", len(claimed))
	}
	decided := make(chan struct{})
	var deciding, reading sync.WaitGroup
	for d := range deciders {
		deciding.Go(func() {
			for i := d; i < total; i += deciders {
				var err error
				switch c := claimed[i]; i % 4 {
				case 0:
					_, err = s.Settle(ctx, []Settlement{answer(c, countersign.DecisionConfirmed, someDetails(t, "1"))}, 600)
				case 1:
					_, err = s.Settle(ctx, []Settlement{answer(c, countersign.DecisionDeclined, nil)}, 600)
				case 2:
					_, err = s.CancelWithdrawal(ctx, c.ID, 600)
				case 3:
					_, err = s.Sweep(ctx, 5000+db.Millis(i))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		reading.Go(func() {
			seen := map[string]bool{}
			for after, last := int64(0), false; ; {
				select {
				case <-decided:
					last = true
				default:
				}
				list, err := s.Decisions(ctx, after, 7)
				if err != nil {
					t.Error(err)
					return
				}
				for _, d := range list {
					if d.Seq != after+1 || seen[d.Withdrawal.ID] || d.Withdrawal.Decision == countersign.DecisionNone {
						t.Errorf("after %d comes %+v", after, d)
					}
					after, seen[d.Withdrawal.ID] = d.Seq, true
				}
				if last && len(list) == 0 {
					break
				}
			}
			if len(seen) != total {
				t.Errorf("a reader saw %d of %d", len(seen), total)
			}
		})
	}
	deciding.Wait()
	close(decided)
	reading.Wait()
}

func testAlarms(t *testing.T, s *Outbox) {
	const hour = 3_600_000
	for _, a := range []db.Alarm{
		{Of: "m0", Kind: "k", Subject: "s", At: 10 * hour},
		{Of: "m0", Kind: "k", Subject: "s", At: 10*hour + 5}, // the same
		{Of: "m0", Kind: "k", Subject: "t", At: 10*hour + 5},
		{Of: "", Kind: "k2", Subject: "", At: 10*hour + 6},
		{Of: "m0", Kind: "k", Subject: "s", At: 11*hour + 1},
	} {
		if err := s.RaiseAlarm(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	list := must(s.Alarms(ctx, 0, 2))(t)
	list = append(list, must(s.Alarms(ctx, 2, 10))(t)...)
	var got []string
	for _, a := range list {
		got = append(got, fmt.Sprintf("%d %s %s %s %d", a.Seq, a.Of, a.Kind, a.Subject, a.At-10*hour))
	}
	if s := strings.Join(got, ", "); s != "1 m0 k s 0, 2 m0 k t 5, 3  k2  6, 4 m0 k s 3600001" {
		t.Error(s)
	}
	if err := s.RaiseAlarm(ctx, db.Alarm{Kind: "a\x00"}); err == nil {
		t.Error("took a NUL")
	}
}
