package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
)

// TestResumedFromBefore: what is from before a restore is resumed by a click, and not before the
// restore is reconciled.
func TestResumedFromBefore(t *testing.T) {
	press := func(t *testing.T, s *site, path, id string) {
		t.Helper()
		if p := s.post("/console/tasks/restored."+id+"/approve", url.Values{"reason": {"the wallet has nothing"}}); p.status != http.StatusSeeOther {
			t.Fatalf("%d %s", p.status, p.body)
		}
		if p := s.get(path); strings.Contains(p.body, "/restored.") || strings.Contains(p.body, "before a restore") {
			t.Errorf("resumed it is still shown as restored: %s", p.body)
		}
	}
	offers := func(t *testing.T, s *site, path, id string, offered bool) {
		t.Helper()
		p := s.get(path)
		if !strings.Contains(p.body, "before a restore") || strings.Contains(p.body, "/console/tasks/restored."+id+"/approve") != offered || strings.Contains(p.body, "reconcile") == offered {
			t.Errorf("offered should be %v: %s", offered, p.body)
		}
	}
	t.Run("service", func(t *testing.T) {
		service, first := runService(t, nil)
		admin, ctx, o := serviceAPI(t, service.URL(), first), t.Context(), service.Outbox()
		addMerchant(t, admin, "away", client.MerchantSettings{Name: "away"})
		w, err := admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "away", CallBackID: "w-1", TenantUserID: "u"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Restored(ctx, 0, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		s, path := newSite(t, service.URL()).signIn(first), "/console/withdrawals/"+w.ID
		offers(t, s, path, w.ID, false)
		if _, err := o.Reconcile(ctx, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		offers(t, s, path, w.ID, true)
		press(t, s, path, w.ID)
		if got, err := admin.Withdrawal(ctx, w.ID); err != nil || got.Restored {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("gateway", func(t *testing.T) {
		shop, ctx := newShop(t), t.Context()
		o := shop.held("from-before")
		if _, err := shop.book.Restored(ctx, 0, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		s, path := newSite(t, shop.base).signIn(shop.token(client.RoleApprover).Secret), "/console/orders/"+o.CallBackID
		offers(t, s, path, o.CallBackID, false)
		said := book.Said{Booked: func(string) bool { return false }, Transfer: func(string, string, int64) bool { return false }}
		if _, err := shop.book.Reconcile(ctx, said, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		offers(t, s, path, o.CallBackID, true)
		press(t, s, path, o.CallBackID)
		if got, err := shop.admin.Order(ctx, o.CallBackID); err != nil || got.Restored {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
