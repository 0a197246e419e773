package outbox

import (
	"fmt"
	"testing"

	"countersign/client"
	"countersign/internal/db"
)

func testStats(t *testing.T, s *Outbox) {
	addMerchants(t, s, 2, nil)
	ended(t, s, "refused", client.CallbackRefused, 100)
	for i := range 3 {
		ended(t, s, fmt.Sprint("exhausted", i), client.CallbackExhausted, 100)
	}
	settleAll(t, s, []Claimed{claimOne(t, s, "accepted", 102)}, 102)
	claimOne(t, s, "sending", 103)
	for i := range 4 {
		must(s.Ingest(ctx, []NewCallback{deposit(fmt.Sprint("m", i%2), fmt.Sprint("pending", i), db.Millis(500-i))}, 104))(t)
	}
	w, _ := asked(t, s, "cancelled", 9000, 200)
	must(s.CancelWithdrawal(ctx, w.ID, 201))(t)
	asked(t, s, "asked", 9000, 202)
	got := map[string]int64{}
	for _, n := range must(s.Stats(ctx))(t).Lanes {
		got[string(n.Lane)+" "+string(n.State)] = n.Count
		want := db.Millis(0)
		if n.Lane == client.LaneNotify && n.State == client.CallbackPending {
			want = 201 // that the cancelled one has ended
		}
		if n.OldestDue != want {
			t.Errorf("oldest of %s %s is due at %d, want %d", n.Lane, n.State, n.OldestDue, want)
		}
	}
	want := map[string]int64{
		"notify pending": 5, "notify sending": 1, "notify accepted": 1, "notify refused": 1, "notify exhausted": 3, "notify cancelled": 0,
		"withdraw pending": 0, "withdraw sending": 1, "withdraw accepted": 0, "withdraw refused": 0, "withdraw exhausted": 0, "withdraw cancelled": 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if err := s.Ping(ctx); err != nil {
		t.Error(err)
	}
}
