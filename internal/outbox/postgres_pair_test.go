//go:build unix

package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// A commit that waits for the standby and is given up stays invisible: nobody
// can rest an answer on what a failover would undo. After the promotion the
// same open store goes on with the other server, and it does not go back.
func TestFailedOver(t *testing.T) {
	pair := dbtest.NewPair(t)
	s := openAt(t, pair.URL())
	addMerchants(t, s, 1, nil)
	if _, err := s.Ingest(t.Context(), []NewCallback{deposit("m0", "told", 1)}, 1); err != nil {
		t.Fatal(err)
	}

	pair.Standby.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	_, err := s.Ingest(ctx, []NewCallback{deposit("m0", "hangs", 1)}, 2)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without the standby: %v, want that it does not end", err)
	}
	list, _, err := s.Callbacks(t.Context(), nil, client.CallbackFilter{Merchant: "m0"}, 10, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].EventID != "told" {
		t.Fatalf("before the standby has it, others see %d callbacks, want the first alone", len(list))
	}

	pair.Primary.Kill()
	pair.Standby.Continue()
	pair.Promote()
	begun := time.Now()
	ingest := func(trackingID string) {
		t.Helper()
		for {
			_, err := s.Ingest(t.Context(), []NewCallback{deposit("m0", trackingID, 1)}, 3)
			if err == nil {
				return
			}
			if !errors.Is(err, db.ErrUnavailable) || time.Since(begun) > time.Minute {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	ingest("after")
	t.Logf("the first commit came %v after the promotion", time.Since(begun).Round(time.Millisecond))

	// The old primary comes back as if nothing had been, first in the URL, and
	// waits for no standby any more. It is refused all the same.
	if err := pair.Primary.Start(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"} {
		if _, err := pair.Primary.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pair.Standby.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'countersign'"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		ingest(fmt.Sprint("later", i))
	}
	if n, err := pair.Primary.Exec(t.Context(), "SELECT COUNT(*) FROM callbacks WHERE event_id LIKE 'later%'"); err != nil || n != "0" {
		t.Errorf("the replaced primary took %s callbacks, %v", n, err)
	}
	if n, err := pair.Standby.Exec(t.Context(), "SELECT COUNT(*) FROM callbacks WHERE event_id LIKE 'later%'"); err != nil || n != "20" {
		t.Errorf("the new primary took %s callbacks of 20, %v", n, err)
	}
}

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
