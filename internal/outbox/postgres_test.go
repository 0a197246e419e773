package outbox

import (
	"fmt"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// Where every transaction is serializable, as it is in engines that know
// nothing less, conflicts come up as late as the commit. Callers see none.
func TestSerializable(t *testing.T) {
	dbURL := dbtest.Postgres(t) + "&default_transaction_isolation=serializable"
	nodes := []*Outbox{openAt(t, dbURL), openAt(t, dbURL)}
	addMerchants(t, nodes[0], 2, nil)
	var work sync.WaitGroup
	for w := range 8 {
		s := nodes[w%2]
		work.Go(func() {
			for i := range 15 {
				id := fmt.Sprintf("%d-%d", w/2, i) // each from two callers
				_, err := s.Ingest(ctx, []NewCallback{deposit("m0", id, 1), deposit("m1", id, 1)}, 1)
				if err != nil {
					t.Errorf("ingest: %v", err)
				}
				claimed, err := s.Claim(ctx, ClaimRequest{Lane: countersign.LaneNotify, Now: 10, LeaseUntil: 1 << 40, Max: 4})
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				var ends []Settlement
				for _, c := range claimed {
					ends = append(ends, Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: client.CallbackAccepted, Reached: true,
						Attempt: Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: c.ID, Started: 10, Result: "accepted", Node: "n"}}})
				}
				done, err := s.Settle(ctx, ends, 20)
				if err != nil {
					t.Errorf("settle: %v", err)
				}
				for _, d := range done {
					if !d.Applied {
						t.Error("an attempt of ours was not ours to settle")
					}
				}
			}
		})
	}
	work.Wait()
}
