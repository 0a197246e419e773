package dispatch

import (
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// Thirty days of holds, with the clock of the test and real rows: their number is kept
// across attempts, and a person who resends the callback begins it anew.
func TestHoldsAreCounted(t *testing.T) {
	for name, url := range ready.Kinds(outbox.End()) {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, url(t))
			start := db.MillisOf(time.Now())
			if _, err := s.CreateMerchant(t.Context(), testStoreMerchant("m1", testPair(), "https://m1.example"), start); err != nil {
				t.Fatal(err)
			}
			c := depositPayload(t, 1)
			c.Merchant = "m1"
			kept, err := s.Ingest(t.Context(), []outbox.NewCallback{c}, start)
			if err != nil {
				t.Fatal(err)
			}
			id := kept[0].ID
			hold := func(now db.Millis) (asked int, state client.CallbackState) {
				for end := now + 30*24*3_600_000; now < end; {
					list, err := s.Claim(t.Context(), outbox.ClaimRequest{Lane: countersign.LaneNotify, Now: now, LeaseUntil: now + 45_000, Max: 9})
					if err != nil {
						t.Fatal(err)
					}
					if len(list) == 0 {
						break
					}
					asked++
					record := outbox.Attempt{Attempt: client.Attempt{Number: list[0].Attempt, RequestUUID: "u", Started: now}}
					n := settlement(list[0], nil, Verdict{Result: client.AttemptHold, Reason: client.ReasonMerchantHold, Reached: true}, record, now, 0)
					if _, err := s.Settle(t.Context(), []outbox.Settlement{n}, now); err != nil {
						t.Fatal(err)
					}
					now = max(now+1, n.Due)
				}
				got, err := s.Callback(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return asked, got.State
			}
			asked, state := hold(start)
			if asked != 58 || state != client.CallbackExhausted {
				t.Errorf("asked %d times, then %s", asked, state)
			}
			alarms, err := ready.Alarms(t.Context(), s)
			if err != nil || len(alarms) != 1 || alarms[0].Kind != client.AlarmExhausted || alarms[0].Subject != id+" merchant_hold" {
				t.Errorf("alarms %+v, %v", alarms, err)
			}
			later := start + 60*24*3_600_000
			if _, err := s.Resend(t.Context(), id, later); err != nil {
				t.Fatal(err)
			}
			if again, state := hold(later); again != asked || state != client.CallbackExhausted {
				t.Errorf("resent: asked %d times, then %s", again, state)
			}
		})
	}
}
