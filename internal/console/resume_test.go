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

// TestResumedFromBefore: what is from before a restore is resumed by a click, and not before the restore is reconciled.
func TestResumedFromBefore(t *testing.T) {
	now := db.MillisOf(time.Now())
	resume := func(s *site, path, id string, reconcile func() (bool, error)) {
		t.Helper()
		for _, reconciled := range []bool{false, true} {
			if reconciled {
				must(reconcile())(t)
			}
			p := s.get(path)
			if !strings.Contains(p.body, "before a restore") || strings.Contains(p.body, "/console/tasks/restored."+id+"/approve") != reconciled || strings.Contains(p.body, "reconcile") == reconciled {
				t.Errorf("reconciled %v: %s", reconciled, p.body)
			}
		}
		s.post("/console/tasks/restored."+id+"/approve", url.Values{"reason": {"the wallet has nothing"}}).is(http.StatusSeeOther)
		if p := s.get(path); strings.Contains(p.body, "/restored.") || strings.Contains(p.body, "before a restore") {
			t.Errorf("resumed it is still shown as restored: %s", p.body)
		}
	}
	service, first := runService(t, nil)
	admin, ctx, o := serviceAPI(t, service.URL(), first), t.Context(), service.Outbox()
	addMerchant(t, admin, "away", client.MerchantSettings{})
	w := must(admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "away", CallBackID: "w-1", TenantUserID: "u"}))(t)
	must(o.Restored(ctx, 0, now))(t)
	resume(newSite(t, service.URL()).signIn(first), "/console/withdrawals/"+w.ID, w.ID, func() (bool, error) { return o.Reconcile(ctx, now) })
	if got := must(admin.Withdrawal(ctx, w.ID))(t); got.Restored {
		t.Errorf("%+v", got)
	}

	shop := newShop(t)
	shop.held("from-before")
	must(shop.book.Restored(ctx, 0, now))(t)
	said := book.Said{Booked: func(string) bool { return false }, Transfer: func(string, string, int64) bool { return false }}
	resume(newSite(t, shop.base).signIn(shop.token(client.RoleApprover).Secret), "/console/orders/from-before", "from-before",
		func() (bool, error) { return shop.book.Reconcile(ctx, said, now) })
	if got := must(shop.admin.Order(ctx, "from-before"))(t); got.Restored {
		t.Errorf("%+v", got)
	}
}
