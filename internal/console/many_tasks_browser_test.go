package console_test

import (
	"fmt"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestManyTasks: the first page of both ends with 200 tasks of all kinds, at both widths.
// COUNTERSIGN_SCREENSHOTS names a directory that gets pictures.
func TestManyTasks(t *testing.T) {
	dbtest.Whole(t, "a browser opens pages of 200 tasks")
	browser := chromium(t)
	look := func(t *testing.T, base string, token client.Secret, end string, kinds []client.TaskKind) {
		t.Helper()
		b := newTab(t, browser, base)
		b.signIn(token)
		for _, path := range []string{"/console/", "/console/?kind=restored", "/console/?kind=change"} {
			b.open(path)
			for _, width := range []int64{1280, 390} {
				b.size(width, false)
				b.accessible(path)
				if over := get[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s: %d pixels too wide at %d", path, over, width)
				}
				b.picture(fmt.Sprint(end, "-many", len(path), "-", width))
			}
		}
		for _, kind := range kinds {
			b.open("/console/?kind=" + string(kind))
			if get[int](b, `document.querySelectorAll("tbody tr").length`) == 0 {
				t.Errorf("%s: no task is a %s", end, kind)
			}
		}
	}
	t.Run("gateway", func(t *testing.T) {
		s, ctx := newShop(t), t.Context()
		for i := range 20 {
			s.held(fmt.Sprint("from-before-", i))
		}
		if _, err := s.book.Restored(ctx, 0, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		said := book.Said{Booked: func(string) bool { return false }, Transfer: func(string, string, int64) bool { return false }}
		if _, err := s.book.Reconcile(ctx, said, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		s.token(client.RoleApprover)
		for i := range 36 {
			s.held(fmt.Sprint("payout-2027-", i))
			s.twice(i + 1)
			s.moved(fmt.Sprint("user-", i))
			s.misdirected(i)
			if _, err := s.admin.CreateToken(ctx, client.NewToken{Name: fmt.Sprint("person ", i), Role: client.RoleViewer}); err != nil {
				t.Fatal(err)
			}
			if i%5 == 0 {
				if _, err := s.admin.NoteTask(ctx, client.TaskID(client.TaskOrder, fmt.Sprint("payout-2027-", i)), "asked"); err != nil {
					t.Fatal(err)
				}
			}
		}
		look(t, s.base, s.first, "gateway", client.GatewayTaskKinds())
	})
	t.Run("service", func(t *testing.T) {
		service, first := runService(t, nil)
		admin, ctx := serviceAPI(t, service.URL(), first), t.Context()
		agreeable(t, admin, "shop")
		order := func(merchant, id string) {
			t.Helper()
			if _, err := admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: merchant, CallBackID: id, TenantUserID: "u",
				Details: &client.Details{Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, "1.5")}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := admin.CreateMerchant(ctx, client.NewMerchant{ID: "away", Key: &client.KeySpec{Bits: 1024},
			MerchantSettings: client.MerchantSettings{Name: "away", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}}); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			order("away", fmt.Sprint("from-before-", i))
		}
		if _, err := service.Outbox().Restored(ctx, 0, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		if _, err := service.Outbox().Reconcile(ctx, db.MillisOf(time.Now())); err != nil {
			t.Fatal(err)
		}
		limits := client.MerchantPatch{MerchantSettings: client.MerchantSettings{ApproveAbove: client.AmountLimits{{Symbol: "USDT", Above: amount(t, "1")}}}}
		if _, err := admin.UpdateMerchant(ctx, "shop", limits); err != nil {
			t.Fatal(err)
		}
		for i := range 120 {
			order("shop", fmt.Sprint("payout-2027-", i))
		}
		await(t, "the withdrawals are decided", func() bool {
			list, err := admin.Withdrawals(ctx, client.WithdrawalFilter{Merchant: "shop", State: client.WithdrawalAwaiting}, client.PageOptions{})
			return err == nil && len(list.Withdrawals) == 0
		})
		if _, err := admin.CreateToken(ctx, client.NewToken{Name: "ann", Role: client.RoleApprover}); err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			if _, err := admin.CreateToken(ctx, client.NewToken{Name: fmt.Sprint("person ", i), Role: client.RoleViewer}); err != nil {
				t.Fatal(err)
			}
		}
		look(t, service.URL(), first, "service", client.ServiceTaskKinds())
	})
}
