//go:build unix

package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// A commit that the server stopped to wait for the standby for is not called
// one: PostgreSQL says that it is done, with a warning.
func TestCommitNotReplicated(t *testing.T) {
	pair := dbtest.NewPair(t)
	s := openAt(t, pair.URL())
	addMerchants(t, s, 1, nil)
	pair.Standby.Stop()
	done := make(chan error, 1)
	go func() {
		_, err := s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1)
		done <- err
	}()
	for cancelled := ""; cancelled != "1"; time.Sleep(10 * time.Millisecond) {
		var err error
		cancelled, err = pair.Primary.Exec(ctx, "SELECT COUNT(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'countersign'")
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("ingest: %v, want %v", err, db.ErrUnavailable)
	}
	// The row is there for this server now. It is not acknowledged all the same.
	bounded, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := s.Ingest(bounded, []NewCallback{deposit("m0", "a", 1)}, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asked again without the standby: %v, want that it does not end", err)
	}
	pair.Standby.Continue()
	// Asked again, it is there and the standby has it.
	if again := must(s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1))(t); !again[0].Duplicate {
		t.Errorf("asked again: %+v, want a duplicate", again[0])
	}
}
