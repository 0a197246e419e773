package console_test

import (
	"encoding/csv"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// sheet returns the rows of a list as CSV.
func (s *site) sheet(path string) [][]string {
	s.t.Helper()
	p := s.get(path)
	if p.status != 200 || !strings.HasPrefix(p.header.Get("Content-Type"), "text/csv") || !strings.HasPrefix(p.header.Get("Content-Disposition"), "attachment; filename=") {
		s.t.Fatalf("%s: %d %v\n%.500s", path, p.status, p.header, p.body)
	}
	rows, err := csv.NewReader(strings.NewReader(p.body)).ReadAll()
	if err != nil {
		s.t.Fatalf("%s: %v\n%.500s", path, err, p.body)
	}
	return rows
}

// TestCSV: each list gives all that its filter selects, with the names of the API's members.
func TestCSV(t *testing.T) {
	dbtest.NotRaced(t, "a list of 1,100 rows")
	base, first := node(t, nil)
	admin := serviceAPI(t, base, first)
	ctx := t.Context()
	for _, m := range []string{"shop", "other"} {
		addMerchant(t, admin, m, client.MerchantSettings{Name: "=cmd|' /C calc'!A0"})
		must(admin.PauseMerchant(ctx, m, "nothing is sealed for it"))(t)
	}
	var all []client.NewDeposit
	for i := range 1100 {
		d := deposit(t, "shop", fmt.Sprint("@d-", i))
		if i >= 1050 {
			d.Merchant = "other"
		}
		all = append(all, d)
	}
	must(admin.AddDeposits(ctx, all[:1000]...))(t)
	must(admin.AddDeposits(ctx, all[1000:]...))(t)
	s := newSite(t, base).signIn(first)
	for path, want := range map[string]int{"/console/callbacks": 1100, "/console/callbacks?merchant=other": 50, "/console/callbacks?merchant=other&since=1h": 50,
		"/console/callbacks?trackingId=" + url.QueryEscape("@d-7"): 1, "/console/callbacks?since=1h": 1100, "/console/callbacks?until=1h": 0, "/console/withdrawals": 0,
		"/console/merchants": 2, "/console/?kind=change": 0, "/console/tokens": 1} {
		page := s.get(path)
		_, link, found := strings.Cut(page.body, `<a class="csv" href="`)
		if !found {
			if want > 0 {
				t.Errorf("%s has no link\n%.300s", path, page.body)
			}
			continue
		}
		link, _, _ = strings.Cut(link, `"`)
		rows := s.sheet(strings.ReplaceAll(link, "&amp;", "&"))
		if len(rows) != want+1 {
			t.Errorf("%s has %d rows, want %d", path, len(rows)-1, want)
		}
		if rows[0][0] != "id" {
			t.Errorf("%s: columns %q", path, rows[0])
		}
		for _, row := range rows[1:] {
			for _, cell := range row {
				if cell != "" && strings.ContainsRune("=+@", rune(cell[0])) {
					t.Errorf("%s: the cell %q is a formula", path, cell)
				}
			}
		}
	}
	rows := s.sheet("/console/callbacks?merchant=other&format=csv")
	if head := strings.Join(rows[0], " "); !strings.HasPrefix(head, "id merchant type name trackingId txId callBackId state ") || rows[1][4] != "'@d-1099" {
		t.Errorf("%q %q", rows[0], rows[1])
	}
	g := newShop(t)
	g.held("csv-1")
	g.twice(7)
	g.misdirected(3)
	g.moved("csv")
	atGateway := newSite(t, g.base).signIn(g.first)
	for path, want := range map[string]int{"orders?": 1, "orders?tenantUserId=user-7&": 1, "orders?tenantUserId=none&": 0, "orders?state=declined&": 0, "deposits?": 2, "deposits?state=held&": 1,
		"?kind=refused&": 1, "addresses?": 1} {
		if rows := atGateway.sheet("/console/" + path + "format=csv"); len(rows) != want+1 {
			t.Errorf("%s has %d rows, want %d", path, len(rows)-1, want)
		}
	}
	// What cannot be answered is a page that says so, not a file.
	for _, wrong := range []string{"since=yesterday", "state=wrong"} {
		if p := s.get("/console/callbacks?format=csv&" + wrong).is(http.StatusUnprocessableEntity); strings.Contains(p.header.Get("Content-Type"), "csv") {
			t.Errorf("%s: %v", wrong, p.header)
		}
	}
	core := must(admin.CreateToken(ctx, client.NewToken{Name: "core", Role: client.RoleCore}))(t)
	newSite(t, base).signIn(core.Secret).get("/console/callbacks?format=csv").is(http.StatusForbidden) // a token of the wallet
}

// TestResendMatching: what the form sends is what was counted, whatever member the filter has.
func TestResendMatching(t *testing.T) {
	base, first := node(t, nil)
	admin := serviceAPI(t, base, first)
	ctx := t.Context()
	addMerchant(t, admin, "shop", client.MerchantSettings{})
	q := url.Values{"merchant": {"shop"}, "type": {"1"}, "state": {"pending"}, "trackingId": {"t"}, "txId": {"x"}, "callBackId": {"c"}, "tenantUserId": {"u&1"}, "address": {"a"},
		"since": {"2027-01-31T00:00:00Z"}, "until": {"2027-02-01T00:00:00Z"}}
	s := newSite(t, base).signIn(first)
	p := s.get("/console/resend?" + q.Encode())
	if p.status != 200 || !strings.Contains(p.body, "Nothing matches") {
		t.Fatalf("%d %s", p.status, p.body)
	}
	must(admin.AddDeposits(ctx, deposit(t, "shop", "d-1")))(t)
	dbtest.Until(t, "the first attempt has failed", func() bool {
		list, err := admin.Callbacks(ctx, client.CallbackFilter{State: client.CallbackPending}, client.PageOptions{})
		return err == nil && len(list.Items) == 1 && list.Items[0].Failed > 0
	})
	must(admin.PauseMerchant(ctx, "shop", ""))(t)
	p = s.get("/console/resend?merchant=shop&tenantUserId=user-7&address=TTo&since=1h&until=2099-01-01")
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`).FindAllStringSubmatch(p.body, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	if form.Get("tenantUserId") != "user-7" || form.Get("address") != "TTo" || form.Get("since") == "" || form.Get("until") == "" || form.Get("merchant") != "shop" {
		t.Errorf("the form has %v\n%s", form, p.body)
	}
}
