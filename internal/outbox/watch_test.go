package outbox

import (
	"context"
	"testing"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// woken waits, a long time at most: nothing here depends on how long.
func woken(t testing.TB, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal("not woken")
	}
}

func asleep(t testing.TB, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Fatal("woken for nothing")
	default:
	}
}

func testWatch(t *testing.T, s *Outbox) {
	addMerchants(t, s, 1, nil)
	notify, stopNotify := s.Watch(TopicOf(countersign.LaneNotify))
	also, stopAlso := s.Watch(TopicOf(countersign.LaneNotify))
	withdraw, stopWithdraw := s.Watch(TopicOf(countersign.LaneWithdraw))
	decisions, stopDecisions := s.Watch(TopicDecisions)
	defer stopNotify()
	defer stopWithdraw()
	defer stopDecisions()
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "a", 1), deposit("m0", "b", 1)}, 1))(t)
	woken(t, notify)
	woken(t, also)
	asleep(t, notify)
	asleep(t, withdraw)
	stopAlso()
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "c", 1)}, 1))(t)
	must(s.Ingest(ctx, []NewCallback{deposit("m0", "d", 1)}, 1))(t)
	woken(t, notify)
	asleep(t, notify)
	asleep(t, also)
	w := addWithdrawal(t, s, newWithdrawal("cb", 5000, nil), 1)
	woken(t, withdraw)
	must(s.CancelWithdrawal(ctx, w.ID, 2))(t)
	woken(t, decisions)
	// What can't be kept wakes nobody.
	if _, err := s.Ingest(ctx, []NewCallback{deposit("nobody", "e", 1)}, 1); err == nil {
		t.Error("took a callback to nobody")
	}
	asleep(t, notify)
}

// TestWatchBetweenNodes: what one node commits wakes the other, also after its
// connection broke.
func TestWatchBetweenNodes(t *testing.T) {
	url := dbtest.Postgres(t)
	a, b := openAt(t, url), openAt(t, url)
	addMerchants(t, a, 1, nil)
	c, stop := b.Watch(TopicOf(countersign.LaneNotify))
	defer stop()
	must(a.Ingest(ctx, []NewCallback{deposit("m0", "a", 1)}, 1))(t)
	woken(t, c)

	// Everybody's listening connection is cut; both come back and say so.
	ok(t, a.Write(ctx, func(ctx context.Context, x *db.Tx) error {
		n := 0
		_, err := db.One(ctx, x, `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`, nil, &n)
		if err == nil && n != 2 {
			t.Errorf("cut %d connections, want 2", n)
		}
		return err
	}))
	woken(t, c)
	must(a.Ingest(ctx, []NewCallback{deposit("m0", "b", 1)}, 1))(t)
	woken(t, c)
}
