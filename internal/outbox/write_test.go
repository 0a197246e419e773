package outbox

import (
	"testing"

	"countersign"
	"countersign/internal/lab/dbtest"
)

// TestSynced: everything waits for the disk but claims of the notify lane.
func TestSynced(t *testing.T) {
	s := openAt(t, dbtest.SQLite(t))
	// What each call asks for, by what its commit left behind.
	synced := func(what string, call func() error) (synced bool) {
		t.Helper()
		if err := call(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return !s.Unsynced()
	}
	addMerchants(t, s, 1, nil)
	if got := synced("ingest", func() error { _, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1); return err }); !got {
		t.Error("ingest does not wait for the disk")
	}
	claim := ClaimRequest{Lane: countersign.LaneNotify, Now: 1, LeaseUntil: 60_001, Max: 5}
	var claimed []Claimed
	if got := synced("claim", func() (err error) { claimed, err = s.Claim(ctx, claim); return err }); got || len(claimed) != 1 {
		t.Fatalf("a claim of the notify lane: %v, %v", got, claimed)
	}
	if got := synced("settle", func() error { _, err := s.Settle(ctx, []Settlement{settlementOf(claimed[0])}, 2); return err }); !got {
		t.Error("settle does not wait for the disk")
	}
	claim.Lane = countersign.LaneWithdraw
	if got := synced("claim", func() error { _, err := s.Claim(ctx, claim); return err }); !got {
		t.Error("a claim of the withdraw lane does not wait for the disk")
	}
}
