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
	if _, err := admin.AddDeposits(ctx, all...); err != nil {
		t.Fatal(err)
	}
	w, err := admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: "w&1", TenantUserID: "user-8"})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, base).signIn(first)
	for text, want := range map[string]string{"shop": "/console/merchants/shop", " w&1 ": "/console/withdrawals/" + w.ID, "user-8": "/console/withdrawals/" + w.ID,
		w.ID: "/console/withdrawals/" + w.ID} {
		if p := s.get("/console/search?q=" + url.QueryEscape(text)); p.status != http.StatusSeeOther || p.to() != want {
			t.Errorf("%q leads to %q with status %d, want %q", text, p.to(), p.status, want)
		}
	}
	p := s.get("/console/search?q=user-7")
	if rows := strings.Count(p.body, `data-label="Which"`); p.status != 200 || rows != client.MostFound || !strings.Contains(p.body, "there may be more") ||
		!strings.Contains(p.body, `name="q" value="user-7"`) {
		t.Errorf("%d rows, status %d\n%s", rows, p.status, p.body)
	}
	if p := s.get("/console/search?q=none"); p.status != 200 || !strings.Contains(p.body, "Nothing has") {
		t.Errorf("%d %s", p.status, p.body)
	}
	if p := s.get("/console/search?q="); p.status != 200 {
		t.Errorf("%d %s", p.status, p.body)
	}
	if p := s.get("/console/search?q=" + strings.Repeat("x", 1025)); p.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", p.status, p.body)
	}
	core, err := admin.CreateToken(ctx, client.NewToken{Name: "core", Role: client.RoleCore})
	if err != nil {
		t.Fatal(err)
	}
	other := newSite(t, base).signIn(core.Secret)
	if p := other.get("/console/withdrawals"); strings.Contains(p.body, "data-everything") {
		t.Errorf("a token of the wallet has the box\n%s", p.body)
	}
	if p := other.get("/console/search?q=shop"); p.status != http.StatusForbidden {
		t.Errorf("a token of the wallet finds: %d %s", p.status, p.body)
	}
}
