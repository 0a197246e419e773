package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"countersign/client"
)

// TestSearchBox: what a search finds alone is shown at once, several things are listed, and who
// has no page gets no box.
func TestSearchBox(t *testing.T) {
	base, first := node(t, nil)
	admin := serviceAPI(t, base, first)
	ctx := t.Context()
	addMerchant(t, admin, "shop", client.MerchantSettings{})
	var all []client.NewDeposit
	for i := range 51 {
		all = append(all, deposit(t, "shop", fmt.Sprint("d-", i)))
	}
	must(admin.AddDeposits(ctx, all...))(t)
	w := must(admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: "w&1", TenantUserID: "user-8"}))(t)
	s := newSite(t, base).signIn(first)
	for text, want := range map[string]string{"shop": "/console/merchants/shop", " w&1 ": "/console/withdrawals/" + w.ID, "user-8": "/console/withdrawals/" + w.ID,
		w.ID: "/console/withdrawals/" + w.ID} {
		s.get("/console/search?q=" + url.QueryEscape(text)).leads(want)
	}
	p := s.get("/console/search?q=user-7")
	if rows := strings.Count(p.body, `data-label="Which"`); p.status != 200 || rows != client.MostFound || !strings.Contains(p.body, "there may be more") ||
		!strings.Contains(p.body, `name="q" value="user-7"`) {
		t.Errorf("%d rows, status %d\n%s", rows, p.status, p.body)
	}
	for text, want := range map[string]int{"none": 200, "": 200, strings.Repeat("x", 1025): http.StatusUnprocessableEntity} {
		if p := s.get("/console/search?q=" + text); p.status != want || strings.Contains(p.body, "Nothing has") != (text == "none") {
			t.Errorf("%q: %d %s", text, p.status, p.body)
		}
	}
	core := must(admin.CreateToken(ctx, client.NewToken{Name: "core", Role: client.RoleCore}))(t)
	other := newSite(t, base).signIn(core.Secret)
	if p := other.get("/console/withdrawals"); strings.Contains(p.body, "data-everything") {
		t.Errorf("a token of the wallet has the box\n%s", p.body)
	}
	other.get("/console/search?q=shop").is(http.StatusForbidden) // a token of the wallet
}
