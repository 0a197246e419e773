package db_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign"
	"countersign/internal/book"
	"countersign/internal/outbox"
	"countersign/internal/reconcile"
)

// TestReconcileKnowsWhatWasPurged: what the merchant has booked is found at both ends by its
// trackingId, and what it has not booked is named.
func TestReconcileKnowsWhatWasPurged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "booked.ndjson")
	lines := `{"merchant":"shop","trackingId":"old","symbol":"USDT","amount":"2.5"}
{"merchant":"shop","trackingId":"young","symbol":"USDT","amount":"2.5"}
{"merchant":"shop","trackingId":"other","symbol":"USDT","amount":"2.5"}
`
	ok(t, os.WriteFile(path, []byte(lines), 0o600))
	want := map[string]reconcile.Kind{"lost": reconcile.SentNotBooked, "other": reconcile.BookedNotSent}
	now := start + 91*day
	check := func(t *testing.T, compare func(reconcile.Config) error) {
		t.Helper()
		got := map[string]reconcile.Kind{}
		err := compare(reconcile.Config{Booked: path, Now: now, Report: func(f reconcile.Finding) error {
			got[f.TrackingID] = f.Finding
			return nil
		}})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
	onEachDatabase(t, outbox.End(), func(t *testing.T, url string) {
		o := newService(t, url)
		ingest(t, o, deposit("old"), start)
		ingest(t, o, deposit("lost"), start)
		settle(t, o, countersign.LaneNotify, start, accept)
		ingest(t, o, deposit("young"), start+80*day)
		settle(t, o, countersign.LaneNotify, start+80*day, accept)
		if n := purgeAll(t, must(outbox.NewPurger(config(o.DB)))(t), now); n != 2 {
			t.Fatalf("purged %d", n)
		}
		check(t, func(c reconcile.Config) error { _, err := reconcile.Service(ctx, o, c); return err })
	})
	onEachDatabase(t, book.End(), func(t *testing.T, url string) {
		b := newBook(t, url)
		take(t, b, "old", "tx1", "2.5", start)
		take(t, b, "lost", "tx2", "2.5", start)
		take(t, b, "young", "tx3", "2.5", start+80*day)
		if n := purgeAll(t, must(book.NewPurger(config(b.DB)))(t), now); n != 2 {
			t.Fatalf("purged %d", n)
		}
		check(t, func(c reconcile.Config) error { _, err := reconcile.Gateway(ctx, b, c); return err })
	})
}
