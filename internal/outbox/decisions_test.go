package outbox

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
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
	for _, a := range []client.Alarm{
		{Merchant: "m0", Kind: client.AlarmWalletDiffers, Subject: "s", First: 10 * hour},
		{Merchant: "m0", Kind: client.AlarmWalletDiffers, Subject: "s", First: 10*hour + 5}, // the same
		{Merchant: "m0", Kind: client.AlarmWalletDiffers, Subject: "t", First: 10*hour + 5}, // of another withdrawal
		{Merchant: "", Kind: client.AlarmFrozen, Subject: "", First: 10*hour + 6},
		{Merchant: "m0", Kind: client.AlarmLapsed, Subject: "u", First: 11*hour + 1}, // one row counts all subjects
		{Merchant: "m0", Kind: client.AlarmLapsed, Subject: "v", First: 11*hour + 2},
		{Merchant: "m1", Kind: client.AlarmLapsed, Subject: "v", First: 11*hour + 2},
	} {
		if err := s.RaiseAlarm(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	list := must(ready.Alarms(ctx, s))(t)
	var got []string
	for _, a := range list {
		got = append(got, fmt.Sprintf("%d %s %s %q %d-%d %d %q", a.Seq, a.Merchant, a.Kind, a.Subject, a.First-10*hour, a.Last-10*hour, a.Number, a.Examples))
	}
	want := []string{`1 m0 wallet_differs "s" 0-5 2 ["s"]`, `2 m0 wallet_differs "t" 5-5 1 ["t"]`, `3  frozen "" 6-6 1 []`,
		`4 m0 lapsed "v" 3600001-3600002 2 ["v" "u"]`, `5 m1 lapsed "v" 3600002-3600002 1 ["v"]`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := s.RaiseAlarm(ctx, client.Alarm{Kind: "a\x00"}); err == nil {
		t.Error("took a NUL")
	}
}
