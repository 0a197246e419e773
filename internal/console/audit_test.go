package console_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/outbox"
)

// TestAuditPeers: the page of the audit log shows what is held of the logs of other ends, and what
// does not continue it.
func TestAuditPeers(t *testing.T) {
	s, token := runService(t, nil)
	ctx, now := t.Context(), time.Now()
	end := func(d *db.DB, name string) *journal.Log {
		l, err := journal.Open(ctx, journal.Config{DB: d, End: name, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	d, err := db.Open(ctx, db.Config{URL: filepath.Join(t.TempDir(), "merchant.db"), Keys: db.NewMasterKey([32]byte{7})}, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	merchant := end(d, "merchant")
	grow := func() {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return journal.Add(ctx, tx, journal.Record{At: db.MillisOf(now), Kind: "test", Data: struct{}{}})
		}); err != nil {
			t.Fatal(err)
		}
		merchant.Sign(ctx)
		now = now.Add(2 * time.Minute)
	}
	site := newSite(t, s.URL()).signIn(token)
	shows := func(text string, want bool) {
		t.Helper()
		if p := site.get("/console/audit"); p.status != 200 || strings.Contains(p.body, text) != want {
			t.Errorf("status %d; the page has %q: %v", p.status, text, !want)
		}
	}
	shows("Logs of other ends", false)
	peers := end(s.Outbox().DB, "service").Peers(true)
	grow()
	said := merchant.Peers(false).Say(ctx, "service")
	peers.Hear(ctx, "shop", said)
	shows("Logs of other ends", true)
	shows("<bdi>shop</bdi>", true)
	shows("does not continue it", false)
	if list, err := serviceAPI(t, s.URL(), token).AuditPeers(ctx); err != nil || len(list.Peers) != 1 || list.Peers[0].Size != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	other, err := db.Open(ctx, db.Config{URL: filepath.Join(t.TempDir(), "other.db"), Keys: db.NewMasterKey([32]byte{7})}, outbox.End())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	d, merchant = other, end(other, "merchant")
	grow()
	peers.Hear(ctx, "shop", merchant.Peers(false).Say(ctx, "service"))
	shows("does not continue it", true)
	shows("another log", true)
}
