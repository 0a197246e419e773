package console_test

import (
	"strings"
	"testing"

	"countersign/client"
)

// evil is text that tries to be markup, code, a template and another direction of
// writing. It leaves the element #evil or the variable evil behind if it succeeds.
const evil = `<b id=evil>x</b><img src=x onerror="window.evil=1"><script>window.evil=2</script>'"` + "`" + `{{7*7}}${evil=3} </td></table> ` + "\u202egnp.exe\u202c\u200b\u2066"

// TestHostile: what others wrote is shown as text, in every member and on every page.
func TestHostile(t *testing.T) {
	browser := chromium(t)
	base, token := node(t, nil)
	admin := serviceAPI(t, base, token)
	ctx := t.Context()
	long := evil + strings.Repeat("W", 195-len([]rune(evil)))
	m := client.NewMerchant{ID: "shop", Name: long, Key: &client.KeySpec{Bits: 1024}, NotifyURL: "http://127.0.0.1:1/n?" + strings.Repeat("%3Cb%20id=evil%3E", 110),
		WithdrawURL: "http://127.0.0.1:1/'><bid=evil>"}
	if _, err := admin.CreateMerchant(ctx, m); err != nil {
		t.Fatal(err)
	}
	d := deposit(t, "shop", "t")
	d.TrackingID, d.TxID, d.TenantUserID, d.FromAddress, d.ToAddress, d.ChainName, d.Symbol = long, long, long, long, long, evil[:30], evil[:40]
	accepted, err := admin.AddDeposits(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	w, err := admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: long, TenantUserID: long, TrackingID: long,
		Details: &client.Details{Address: long, ChainName: evil[:30], Symbol: evil[:40], Amount: amount(t, strings.Repeat("9", 60)+".000000000000000001")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.PauseMerchant(ctx, "shop", long); err != nil {
		t.Fatal(err)
	}
	made, err := admin.CreateToken(ctx, client.NewToken{Name: long, Role: client.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Freeze(ctx, long); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, browser, base)
	b.signIn(made.Secret)
	plain := evil[:strings.Index(evil, "\u202e")]
	for path, members := range map[string]int{
		"/console/":                            2, // the token's name and the reason of the freeze
		"/console/merchants":                   3,
		"/console/merchants/shop":              4,
		"/console/merchants/shop/change":       2,
		"/console/callbacks":                   3,
		"/console/callbacks/" + accepted[0].ID: 4,
		"/console/callbacks/" + w.Callback:     4,
		"/console/withdrawals":                 4,
		"/console/withdrawals/" + w.ID:         6,
		"/console/audit":                       2, // and in JSON, where quotes are escaped
		"/console/audit?subject=" + w.ID:       2,
		"/console/tokens":                      3,
		"/console/alarms":                      3,
		"/console/stop":                        3,
		"/console/resend?merchant=shop&trackingId=" + queryOf(long): 3,
		"/console/callbacks?trackingId=" + queryOf(long):            3,
		"/console/nothing?" + queryOf(evil):                         2,
	} {
		for _, width := range []int64{1280, 390} {
			b.size(width, false)
			b.open(path)
			if n := strings.Count(get[string](b, `document.body.textContent`), plain); n < members {
				t.Errorf("%s shows it %d times as text, want %d\n%s", path, n, members, b.page())
			}
			if got := get[bool](b, `!!document.getElementById("evil") || typeof window.evil !== "undefined"`); got {
				t.Errorf("%s: the text became markup or code", path)
			}
			if got := get[int](b, `[...document.querySelectorAll("main bdi, main span, main pre, main td")].filter(e => /[\u202a-\u202e\u2066-\u2069\u200b-\u200f]/.test(e.textContent)).length`); got > 0 {
				t.Errorf("%s has %d elements with characters that turn the text around", path, got)
			}
			if over := get[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s is %d pixels wider than a window of %d", path, over, width)
			}
		}
		b.accessible(path)
	}
}
