package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
)

// TestLongValues: in a window of 1,280 pixels no amount of 39 digits, no long id of a merchant and
// no address pushes a column of a list out of sight.
func TestLongValues(t *testing.T) {
	dbtest.Whole(t, "a browser opens every page with long values")
	browser := chromium(t)
	t.Parallel()
	ctx := t.Context()
	const sum, user, target = "123456789012345678901.987654321098765432", "user-00000000000000000000000000000000000065515", "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"
	base, first := node(t, nil)
	admin := serviceAPI(t, base, first)
	m := strings.Repeat("a-merchant-", 5) + "of-64-cha"
	if _, err := admin.CreateMerchant(ctx, client.NewMerchant{ID: m, Key: &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "A merchant", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}}); err != nil {
		t.Fatal(err)
	}
	d := deposit(t, m, "3f2b8c1e-7a41-4c0e-9d55-0123456789ab")
	d.TenantUserID, d.TxID, d.ToAddress, d.Amount = user, strings.Repeat("a7", 32), target, amount(t, sum)
	if _, err := admin.AddDeposits(ctx, d); err != nil {
		t.Fatal(err)
	}
	w, err := admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: m, CallBackID: "9c2f8c1e-7a41-4c0e-9d55-0123456789ab", TenantUserID: user,
		Details: &client.Details{Address: target, ChainName: "TRON", Symbol: "USDT", Amount: amount(t, sum)}})
	if err != nil {
		t.Fatal(err)
	}
	fits := func(b *tab, paths ...string) {
		t.Helper()
		b.size(1280, false)
		for _, path := range paths {
			b.open(path)
			if hidden := get[int](b, `Math.max(0, ...[...document.querySelectorAll(".scroll")].map(e => e.scrollWidth - e.clientWidth))`); hidden > 0 {
				t.Errorf("%s: a table is %d pixels wider than its place", path, hidden)
			}
		}
	}
	b := newTab(t, browser, base)
	b.signIn(first)
	fits(b, "/console/callbacks", "/console/withdrawals", "/console/merchants", "/console/withdrawals/"+w.ID, "/console/search?q="+user)

	s := newShop(t)
	for i := range 2 {
		d := countersigntest.Deposit(1)
		d.TrackingID, d.TenantUserID, d.TxID, d.ToAddress, d.Amount = fmt.Sprint("3f2b8c1e-7a41-4c0e-9d55-0123456789a", i), user, strings.Repeat("a7", 32), target, amount(t, sum)
		s.tell(d)
	}
	o := client.NewOrder{CallBackID: "9c2f8c1e-7a41-4c0e-9d55-0123456789ab", TenantUserID: user, Address: target, ChainName: "TRON", Symbol: "USDT", Amount: amount(t, sum)}
	if _, err := s.app.AddOrder(ctx, o); err != nil {
		t.Fatal(err)
	}
	s.ask(o, countersign.CodeAwaitingApproval)
	g := newTab(t, browser, s.base)
	g.signIn(s.first)
	fits(g, "/console/", "/console/deposits", "/console/deposits?state=held", "/console/orders", "/console/orders/"+o.CallBackID, "/console/deposits/2")
}

// TestFormIsKept: a form that is refused is open and has what was typed, in every field but what
// is typed to confirm.
func TestFormIsKept(t *testing.T) {
	s := newShop(t)
	o := s.held("kept")
	b := newSite(t, s.base).signIn(s.first)
	page := "/console/orders/" + o.CallBackID
	reason := strings.Repeat(`why "not" <b>`, 45) // longer than a reason may be
	p := b.do(http.MethodPost, "/console/tasks/"+client.TaskID(client.TaskOrder, o.CallBackID)+"/decline", url.Values{"reason": {reason}}, "Referer", s.base+page)
	if p.status != http.StatusUnprocessableEntity || !strings.Contains(p.body, "Order <bdi>kept") {
		t.Fatalf("%d %s", p.status, p.body)
	}
	_, form, _ := strings.Cut(p.body, `<details open class="act"><summary>Decline</summary>`)
	form, _, _ = strings.Cut(form, "</details>")
	if !strings.Contains(p.body, "This was not done:") || !strings.Contains(form, `value="why &#34;not&#34; &lt;b&gt;why`) || strings.Contains(p.body, "not\" <b>") {
		t.Errorf("the form is %q", form)
	}
	if strings.Count(p.body, "<details open") != 1 {
		t.Error("another form is open too")
	}
	if p = b.get(page); strings.Contains(p.body, "<details open") || strings.Contains(p.body, "why &#34;not") {
		t.Error("it is kept for longer than once")
	}
}
