package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

// TestWakesBesideLocked: while a transaction holds the lane of one merchant, what is added for
// it and for others is claimable for the others, and for it as soon as that transaction ends.
func TestWakesBesideLocked(t *testing.T) {
	url := endtest.Postgres(End())(t)
	s := openAt(t, url)
	ids := addMerchants(t, s, 5, nil)
	holder := must(pgx.Connect(ctx, url))(t)
	defer holder.Close(ctx)
	held := must(holder.Begin(ctx))(t)
	must(held.Exec(ctx, `SELECT 1 FROM lanes WHERE merchant = $1 FOR UPDATE`, ids[2]))(t)

	var items []NewCallback
	for _, id := range ids {
		items = append(items, deposit(id, "of-"+id, 1))
	}
	ingested := make(chan error, 1)
	go func() {
		_, err := s.Ingest(ctx, items, 1)
		ingested <- err
	}()
	var got []string
	within := time.Now().Add(time.Minute)
	for at := db.Millis(10); len(got) < 4; at++ {
		if time.Now().After(within) {
			t.Fatalf("beside a locked lane only %v were claimed", got)
		}
		for _, c := range claim(t, s, countersign.LaneNotify, at, 10) {
			got = append(got, c.Merchant)
		}
	}
	if slices.Sort(got); fmt.Sprint(got) != "[m0 m1 m3 m4]" {
		t.Fatalf("claimed of %v", got)
	}

	woken := make(chan error, 1)
	go func() { // Ingest gives up after a while
		_, err := s.wakeLanes(ctx, countersign.LaneNotify, ids, 1, 1)
		woken <- err
	}()
	for waits := 0; waits == 0; {
		select {
		case err := <-woken:
			t.Fatalf("it ended while a lane was locked: %v", err)
		default:
		}
		if time.Now().After(within) {
			t.Fatal("nothing waits for the locked lane")
		}
		must(db.One(ctx, s, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &waits))(t)
	}
	ok(t, held.Rollback(ctx))
	for _, ended := range []chan error{woken, ingested} {
		ok(t, <-ended)
	}
	if c := claim(t, s, countersign.LaneNotify, 1000, 10); len(c) != 1 || c[0].Merchant != ids[2] {
		t.Errorf("after the lock: claimed %+v", c)
	}
}

// TestClaimLooksAgain: what others commit after a claim has looked for it and before the claim's own commit is
// claimable at once.
func TestClaimLooksAgain(t *testing.T) {
	s := openAt(t, endtest.Postgres(End())(t))
	addMerchants(t, s, 1, nil)
	added := must(s.Ingest(ctx, []NewCallback{deposit("m0", "seen", 1), deposit("m0", "late", 1)}, 1))(t)
	exec(t, s, `UPDATE outbox SET state = 'cancelled' WHERE merchant || '.' || id = $1`, added[1].ID)
	exec(t, s, `CREATE FUNCTION come() RETURNS trigger AS $$ BEGIN
		UPDATE outbox SET state = 'pending' WHERE state = 'cancelled';
		RETURN NULL; END $$ LANGUAGE plpgsql`)
	exec(t, s, `CREATE TRIGGER come AFTER UPDATE OF next_due ON lanes FOR EACH ROW WHEN (NEW.next_due > 10) EXECUTE FUNCTION come()`)
	for _, want := range added {
		if got := claim(t, s, countersign.LaneNotify, 10, 10); len(got) != 1 || got[0].ID != want.ID {
			t.Errorf("claimed %d, want %s alone", len(got), want.TrackingID)
		}
	}
}
