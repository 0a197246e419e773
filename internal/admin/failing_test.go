package admin

import (
	"context"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestFailingMerchants: a merchant whose last exchange failed is in the numbers with the reason of that, and in the
// list, whose pages have each merchant once.
func TestFailingMerchants(t *testing.T) {
	h := newHarness(t, dbtest.SQLite(t))
	ids := []string{"m-a", "m-b", "m-c", "m-d", "m-e"}
	for _, id := range ids {
		h.merchant(id)
	}
	ctx, c, now := t.Context(), h.client(client.RoleViewer), db.MillisOf(h.now())
	ok(t, h.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, id := range []string{"m-e", "m-d"} {
			if _, err := tx.Exec(ctx, `
INSERT INTO health (merchant, reached, accepted, failing, failed, callback, reason, facts) VALUES ($1, 0, 1, $2, $2, 'x', 'tls', '')`, id, int64(now-1)); err != nil {
				return err
			}
		}
		return nil
	}))
	stats := must(c.Stats(ctx))(t)
	if f := stats.Failing; len(f) != 2 || f[0].Merchant != "m-d" || f[0].Since != client.Time(now-1) || f[0].Reason != client.ReasonTLS {
		t.Errorf("failing %+v", f)
	}
	var got []string
	for _, m := range pages(t, func(o client.PageOptions) ([]client.Merchant, *string, error) {
		page, err := c.Merchants(ctx, o)
		return page.Items, page.Next, err
	}) {
		if got = append(got, m.ID); (m.Health != nil) != strings.ContainsAny(m.ID, "de") {
			t.Errorf("%s has the health %+v", m.ID, m.Health)
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("listed %q", got)
	}
}
