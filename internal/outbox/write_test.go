package outbox

import (
	"context"
	"errors"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// TestCallerGone: a caller that gives up while others are at work has changed
// nothing.
func TestCallerGone(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			s := openAt(t, d.url(t))
			addMerchants(t, s, 1, nil)
			gone, leave := context.WithCancel(ctx)
			leave()
			if _, err := s.Ingest(gone, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if list, _, err := s.Callbacks(ctx, nil, client.CallbackFilter{}, 10, ""); err != nil || len(list) != 0 {
				t.Errorf("%d are there, %v", len(list), err)
			}
		})
	}
}

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
	claim := ClaimRequest{Lane: countersign.LaneNotify, Node: "n", Now: 1, LeaseUntil: 60_001, Max: 5}
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
