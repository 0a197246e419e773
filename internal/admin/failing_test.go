package admin

import (
	"context"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestFailingMerchants: a merchant whose last exchange failed is in the numbers with the reason of
// that, and says so in the list.
func TestFailingMerchants(t *testing.T) {
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
	fails("m-f", now-1)
	fails("m-d", now-1)
	stats := must(c.Stats(ctx))(t)
	if f := stats.Failing; len(f) != 2 || f[0].Merchant != "m-d" || f[0].Since != client.Time(now-1) || f[0].Reason != client.ReasonTLS {
		t.Errorf("failing %+v", f)
	}
	var ids []string
	for m, err := range c.AllMerchants(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, strings.TrimPrefix(m.ID, "m-")); (m.Health != nil && m.Health.FailingSince != 0) != (m.ID == "m-d" || m.ID == "m-f") {
			t.Errorf("%s: %+v", m.ID, m.Health)
		}
	}
	first := must(c.Merchants(ctx, client.PageOptions{Limit: 2}))(t)
	second := must(c.Merchants(ctx, client.PageOptions{Limit: 4, Cursor: *first.Next}))(t)
	if got := strings.Join(ids, " "); got != "a b c d e f" || len(first.Merchants) != 2 || second.Merchants[0].ID != "m-c" || second.Next != nil {
		t.Errorf("listed %q, in pages %+v and %+v", got, first, second)
	}
	h.raw(client.RoleViewer, get, "/v1/merchants?cursor=m%2Fa", "", nil).names(t, 422, "query.cursor")
}
