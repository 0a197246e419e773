package admin

import (
	"context"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestFailingMerchantsFirst: a merchant whose last exchange failed is in the numbers with the reason of
// that, and first in the lists, over all pages; who fails or recovers meanwhile is missing on none.
func TestFailingMerchantsFirst(t *testing.T) {
	h := newHarness(t, dbtest.SQLite(t))
	for _, id := range strings.Fields("a b c d e f") {
		h.merchant("m-" + id)
	}
	ctx, c, now := t.Context(), h.client(client.RoleViewer), db.MillisOf(h.now())
	fails := func(id string, since db.Millis) {
		t.Helper()
		if err := h.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, `
INSERT INTO health (merchant, reached, accepted, failing, failed, callback, reason, facts) VALUES ($1, 0, 1, $2, $2, 'x', 'tls', '')
ON CONFLICT (merchant) DO UPDATE SET failing = excluded.failing`, id, int64(since))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	fails("m-e", now-1)
	fails("m-d", now-1)
	stats := must(c.Stats(ctx))(t)
	if f := stats.Failing; len(f) != 2 || f[0].Merchant != "m-d" || f[0].Since != client.Time(now-1) || f[0].Reason != client.ReasonTLS {
		t.Errorf("failing %+v", f)
	}
	read := func(between func(page int)) string {
		t.Helper()
		var ids []string
		o := client.PageOptions{Limit: 2}
		for page := 1; ; page++ {
			p := must(c.Merchants(ctx, o))(t)
			for _, m := range p.Items {
				ids = append(ids, strings.TrimPrefix(m.ID, "m-"))
			}
			if p.Next == nil {
				return strings.Join(ids, " ")
			}
			o.Cursor = *p.Next
			between(page)
		}
	}
	if got := read(func(int) {}); got != "d e a b c f" {
		t.Errorf("listed %q", got)
	}
	got := read(func(page int) {
		switch page {
		case 1:
			fails("m-a", now+1)
		case 2:
			fails("m-d", 0)
		}
	})
	if got != "d e a b c d f" { // m-d recovered: it may come twice
		t.Errorf("listed %q while they changed", got)
	}
}
