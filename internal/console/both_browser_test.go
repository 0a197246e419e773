package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chromedp/chromedp"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/console"
	"countersign/internal/lab/dbtest"
)

// evil is text that tries to be markup, code, a template and another direction of writing. It leaves the element #evil
// or the variable evil behind if it succeeds.
const evil = `<b id=evil>x</b><img src=x onerror="window.evil=1"><script>window.evil=2</script>'"` + "`" + `{{7*7}}${evil=3} </td></table> ` + "\u202egnp.exe\u202c\u200b\u2066"

// evilPlain is the part of it that pages show unchanged.
var evilPlain = evil[:strings.Index(evil, "\u202e")]

// evilOf is evil with n characters, the last of which have no place to break a line.
func evilOf(n int) string {
	if have := utf8.RuneCountInString(evil); n > have {
		return evil + strings.Repeat("W", n-have)
	}
	return string([]rune(evil)[:n])
}

// unspaced keeps s hostile in visible ASCII, as the address, chain and symbol of an order are: a browser reads a slash
// between attributes like a space.
func unspaced(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '/'
		}
		return r
	}, s)
}

// What is long and not hostile: no table may be wider than its place for it.
const longSum, longUser, longTo = "123456789012345678901.987654321098765432", "user-00000000000000000000000000000000000065515", "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8"

var longMerchant = strings.Repeat("a-merchant-", 5) + "of-64-cha"

// TestInBrowser opens the pages of the consoles in a real browser, in two windows, with hostile and with long text in
// every member, and goes through what a person does there by clicking. Only the whole check opens every page of both.
func TestInBrowser(t *testing.T) {
	browser := chromium(t)
	t.Parallel()
	s, g := newServiceScene(t), newShop(t)
	servicePages, serviceToken := s.hostile()
	gatewayPages, gatewayToken := g.hostile()
	service, gateway := bare(t, http.NotFoundHandler())
	t.Run("service", func(t *testing.T) {
		t.Parallel()
		walk(newTab(t, browser, s.base), service, servicePages, serviceToken)
	})
	t.Run("gateway", func(t *testing.T) {
		t.Parallel()
		if !dbtest.IsWhole() { // its pages are made of the same parts as the service's
			unscripted := newSite(t, g.base).signIn(gatewayToken)
			for path := range gatewayPages {
				plain(unscripted, path)
			}
			return
		}
		walk(newTab(t, browser, g.base), gateway, gatewayPages, gatewayToken)
	})
	t.Run("acts at the service", func(t *testing.T) {
		t.Parallel()
		actAtService(t, newTab(t, browser, s.base), s)
	})
	t.Run("acts at the gateway", func(t *testing.T) {
		dbtest.Whole(t, "TestPosts and TestOfferedByGateway send the same forms without a browser")
		t.Parallel()
		actAtGateway(t, browser, g)
	})
	t.Run("company", func(t *testing.T) {
		dbtest.Whole(t, "TestProvider signs in without a browser")
		t.Parallel()
		signInWithCompany(t, browser)
	})
}

// walk opens pages in both windows, in the whole check all of them, otherwise the one of each kind that shows evil most
// often. axe-core looks at that. It reads the others without a browser. pages says how often each shows evil as text at
// least; below 0 it shows long values, and its tables fit.
func walk(b *tab, c *console.Console, pages map[string]int, token client.Secret) {
	b.t.Helper()
	b.open("/console/alarms")
	b.harmless("sign-in", 0, true, true)
	b.fill(map[string]string{"#token": token.Reveal()})
	b.click(".signin button")
	b.await(`location.pathname === "/console/alarms"`) // where it wanted to go
	unscripted := newSite(b.t, b.base).signIn(token)
	mux, seen := http.NewServeMux(), map[string]bool{}
	for _, pattern := range c.Patterns() {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	for _, path := range slices.SortedFunc(maps.Keys(pages), func(x, y string) int { return cmp.Or(pages[y]-pages[x], strings.Compare(x, y)) }) {
		_, pattern := mux.Handler(httptest.NewRequest(http.MethodGet, path, nil))
		if seen[pattern] && !dbtest.IsWhole() {
			plain(unscripted, path)
			continue
		}
		b.open(path)
		b.harmless(path, max(pages[path], 0), !seen[pattern], pages[path] < 0)
		seen[pattern] = true
	}
	for _, pattern := range c.Patterns() {
		if strings.HasPrefix(pattern, "GET ") && !seen[pattern] {
			b.t.Errorf("no test opens %s", pattern)
		}
	}
}

// plain reads a page without a browser.
func plain(s *site, path string) {
	s.t.Helper()
	if p := s.get(path); p.status >= 500 || strings.Contains(p.body, "<b id=evil>") {
		s.t.Errorf("%s: status %d, or hostile text is markup", path, p.status)
	}
}

// hostile writes evil into every member that others write, as long as the API takes it.
func (s *serviceScene) hostile() (pages map[string]int, token client.Secret) {
	t, ctx, admin := s.t, s.t.Context(), s.admin
	long, short := evilOf(200), evilOf(64)
	addMerchant(t, admin, "evil", client.MerchantSettings{Name: long, NotifyURL: "http://127.0.0.1:1/n?" + strings.Repeat("%3Cb%20id=evil%3E", 119), WithdrawURL: "http://127.0.0.1:1/'><bid=evil>" + strings.Repeat("W", 2000)})
	d := deposit(t, "evil", "t")
	d.TrackingID, d.TxID, d.TenantUserID, d.FromAddress, d.ToAddress, d.ChainName, d.Symbol = long, long, long, long, long, short, short
	accepted := must(admin.AddDeposits(ctx, d))(t)
	in := client.NewWithdrawal{Merchant: "evil", CallBackID: long, TenantUserID: long, TrackingID: long,
		Details: &client.Details{Address: unspaced(long), ChainName: unspaced(short), Symbol: unspaced(short), Amount: amount(t, strings.Repeat("9", 60)+".000000000000000001")}}
	w := must(admin.CreateWithdrawal(ctx, in))(t)
	must(admin.PauseMerchant(ctx, "evil", long))(t)
	// A merchant whose answers have 4,000 characters of it.
	var key client.Secret
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"apiKey": key.Reveal(), "errCode": countersign.CodeUnknownOrder, "message": evilOf(4000), "data": evilOf(4000)})
	}))
	t.Cleanup(server.Close)
	key = addMerchant(t, admin, "liar", client.MerchantSettings{Name: long, NotifyURL: server.URL + "/n", WithdrawURL: server.URL + "/w"}).APIKey
	in.Merchant = "liar"
	answered := must(admin.CreateWithdrawal(ctx, in))(t)
	dbtest.Until(t, "the liar has answered", func() bool {
		question, err := admin.Callback(ctx, answered.Callback)
		return err == nil && len(question.Attempts) > 0
	})
	addMerchant(t, admin, longMerchant, client.MerchantSettings{})
	d = deposit(t, longMerchant, "3f2b8c1e-7a41-4c0e-9d55-0123456789ab")
	d.TenantUserID, d.TxID, d.ToAddress, d.Amount = longUser, strings.Repeat("a7", 32), longTo, amount(t, longSum)
	must(admin.AddDeposits(ctx, d))(t)
	ordered := must(admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: longMerchant, CallBackID: "9c2f8c1e-7a41-4c0e-9d55-0123456789ab", TenantUserID: longUser,
		Details: &client.Details{Address: longTo, ChainName: "TRON", Symbol: "USDT", Amount: amount(t, longSum)}}))(t)
	person := must(admin.CreateToken(ctx, client.NewToken{Name: long, Role: client.RoleAdmin}))(t)
	must(serviceAPI(t, s.base, person.Secret).NoteTask(ctx, client.TaskID(client.TaskRelease, w.ID), evilOf(2000)))(t)
	q := url.QueryEscape(long)
	return map[string]int{ // the token's name is on each
		"/console/":                                              1,
		"/console/?kind=change&state=done":                       1,
		"/console/tasks/release." + w.ID:                         2,
		"/console/tasks/many?verdict=approve&id=release." + w.ID: 1,
		"/console/now":                                           1,
		"/console/merchants":                                     3,
		"/console/merchants/new":                                 1,
		"/console/merchants/evil":                                3,
		"/console/merchants/evil/change":                         1,
		"/console/callbacks":                                     2,
		"/console/callbacks/" + accepted[0].ID:                   3,
		"/console/callbacks/" + w.Callback:                       3,
		"/console/callbacks/" + answered.Callback:                3,
		"/console/callbacks?trackingId=" + q:                     2,
		"/console/callbacks?merchant=" + longMerchant:            -1,
		"/console/withdrawals":                                   3,
		"/console/withdrawals?state=cancelled":                   1,
		"/console/withdrawals/" + w.ID:                           7,
		"/console/withdrawals/" + answered.ID:                    6,
		"/console/withdrawals?merchant=" + longMerchant:          -1,
		"/console/withdrawals/" + ordered.ID:                     -1,
		"/console/audit":                                         1, // and in JSON, where quotes are escaped
		"/console/audit?subject=" + w.ID:                         1,
		"/console/tokens":                                        2,
		"/console/alarms":                                        1,
		"/console/stop":                                          1,
		"/console/resend?merchant=evil&trackingId=" + q:          2,
		"/console/resend?trackingId=none":                        1,
		"/console/search":                                        1,
		"/console/search?q=" + q:                                 2,
		"/console/search?q=none" + q:                             1,
		"/console/search?q=" + longUser:                          -1,
		"/console/nothing?" + url.QueryEscape(evil):              1,
	}, person.Secret
}

// hostile is the same of the gateway. The service writes what it likes: 1,000 bytes into identifiers, 4,000 characters
// into the rest.
func (s *shop) hostile() (pages map[string]int, token client.Secret) {
	t, ctx := s.t, s.t.Context()
	id, long := evilOf(200)+strings.Repeat("W", 750), evilOf(4000)
	d := countersigntest.Deposit(1)
	d.TrackingID, d.TenantUserID, d.TxID, d.FromAddress, d.ToAddress, d.ChainName, d.Symbol = id, id, long, long, long, long, long
	s.tell(d)
	again := *d
	again.TrackingID = "again-" + evilOf(200)
	s.tell(&again)
	// An order: what the application may write, and what a person and the service add.
	o := client.NewOrder{CallBackID: evilOf(200), TenantUserID: evilOf(200), Address: unspaced(evilOf(200)), ChainName: unspaced(evilOf(64)), Symbol: unspaced(evilOf(64)), Amount: amount(t, "5"),
		Labels: map[string]string{evilOf(60): evilPlain}}
	must(s.app.AddOrder(ctx, o))(t)
	must(s.app.CancelOrder(ctx, o.CallBackID, evilOf(500)))(t)
	notice := countersigntest.Notice(countersign.TypeWithdraw, 1).(*countersign.WithdrawalDone)
	notice.TrackingID, notice.TenantUserID, notice.CallBackID = id, o.TenantUserID, o.CallBackID
	notice.TxID, notice.ChainName, notice.Symbol, notice.ToAddress = long, long, long, long
	s.tell(notice)
	s.tell(&countersign.AddressChange{Head: countersign.Head{TrackingID: id + "-moved", TenantUserID: evilOf(200)}, ChainName: long, Symbol: long, ToAddress: "old" + long, NewAddress: long})
	person := must(s.admin.CreateToken(ctx, client.NewToken{Name: evilOf(200), Role: client.RoleAdmin}))(t)
	as := s.as(person.Secret)
	contrary := *d
	contrary.TenantUserID, contrary.Symbol = evilOf(300), long
	s.service.Deliver(ctx, s.to, &contrary)
	for _, task := range []string{"address.1", "deposit.2", "refused.1"} {
		must(as.DeclineTask(ctx, task, evilOf(500)))(t)
	}
	alarms := must(as.Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{}))(t)
	must(as.AckAlarm(ctx, alarms.Items[0].Seq, client.Ack{Note: evilOf(1000)}))(t)
	for _, task := range []string{client.TaskID(client.TaskOrder, o.CallBackID), "deposit.2"} {
		must(as.NoteTask(ctx, task, evilOf(2000)))(t)
	}
	s.held("looked-at")
	for i := range 2 {
		d := countersigntest.Deposit(2)
		d.TrackingID, d.TenantUserID, d.TxID, d.ToAddress, d.Amount = fmt.Sprint("3f2b8c1e-7a41-4c0e-9d55-0123456789a", i), longUser, strings.Repeat("a7", 32), longTo, amount(t, longSum)
		s.tell(d)
	}
	large := client.NewOrder{CallBackID: "9c2f8c1e-7a41-4c0e-9d55-0123456789ab", TenantUserID: longUser, Address: longTo, ChainName: "TRON", Symbol: "USDT", Amount: amount(t, longSum)}
	must(s.app.AddOrder(ctx, large))(t)
	s.ask(large)
	try := url.Values{"amount": {"5"}, "symbol": {evilOf(64)}, "chainName": {evilOf(64)}, "address": {evilOf(200)}, "tenantUserId": {evilOf(200)}}
	return map[string]int{
		"/console/":                1,
		"/console/?kind=order":     -1,
		"/console/?state=declined": 5,
		"/console/tasks/deposit.2": 14,
		"/console/tasks/many?verdict=decline&id=order.looked-at": 1,
		"/console/orders":                                              5,
		"/console/orders/looked-at":                                    1,
		"/console/orders?since=yesterday":                              1,
		"/console/orders?tenantUserId=none":                            1,
		"/console/orders?tenantUserId=" + longUser:                     -1,
		"/console/orders/" + large.CallBackID:                          -1,
		"/console/orders/" + url.PathEscape(o.CallBackID):              6,
		"/console/deposits":                                            9,
		"/console/deposits/1":                                          7,
		"/console/deposits/2":                                          14,
		"/console/deposits/4":                                          -1,
		"/console/deposits?tenantUserId=" + longUser:                   -1,
		"/console/deposits?trackingId=" + url.QueryEscape(evilOf(200)): 1,
		"/console/addresses":                                           4,
		"/console/addresses/1":                                         6,
		"/console/addresses?state=held":                                1,
		"/console/refused/1":                                           6,
		"/console/policy":                                              1,
		"/console/policy?amount=1e5":                                   1,
		"/console/policy?" + try.Encode():                              1,
		"/console/forwarding":                                          1,
		"/console/search?q=" + url.QueryEscape(id):                     1,
		"/console/alarms?state=all":                                    2,
		"/console/tokens":                                              2,
		"/console/audit":                                               2,
		"/console/audit?subject=" + url.QueryEscape(o.CallBackID):      2,
	}, person.Secret
}

// actAtService is a run through the service's console. TestPosts says what every form does.
func actAtService(t *testing.T, b *tab, s *serviceScene) {
	ctx := t.Context()
	me := must(s.admin.CreateToken(ctx, client.NewToken{Name: "who clicks", Role: client.RoleAdmin}))(t)
	viewer, _ := s.token(nil, "who looks", client.RoleViewer)
	live := newTab(t, b.ctx, s.base).signIn(viewer.Secret)
	live.open("/console/now")
	b.signIn(me.Secret)

	if dbtest.IsWhole() { // TestPosts and TestFormIsKept send the forms without a browser
		makeAndChange(t, b, s)
	}

	// What happens appears by itself, and the keyboard stays where it was; the end of the token ends the page.
	before := get[string](live, `(a => (a.focus(), a.textContent))(document.querySelector("#count-notify-pending"))`)
	must(s.admin.AddDeposits(ctx, deposit(t, "idle", "later")))(t)
	live.await(`document.querySelector("#count-notify-pending").textContent !== "` + before + `"`)
	if get[string](live, `document.activeElement.id`) != "count-notify-pending" {
		t.Error("the keyboard lost its place when the page changed")
	}
	must(s.admin.RevokeToken(ctx, viewer.ID))(t)
	live.await(`location.pathname === "/console/signin"`)

	// A search by typing, without a new page.
	b.open("/console/callbacks")
	b.do(chromedp.SetValue(chromedp.CSS("#merchant"), "idle"), chromedp.SendKeys(chromedp.CSS("#txId"), "0xlater\r"))
	b.await(`(a => !!a && a.href.includes("0xlater") && !document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling"))(document.querySelector("a[href^='/console/resend']"))`)
	to := get[string](b, `document.querySelector("a[href^='/console/resend']").getAttribute("href")`)
	unscripted := newSite(t, s.base).signIn(me.Secret)
	dbtest.Until(t, "it matches, which it does while no attempt is due or under way", func() bool {
		if !strings.Contains(unscripted.get(to).body, "<strong>1</strong> callback matches.") { // a page costs the browser more
			return false
		}
		b.open(to)
		return strings.Contains(b.page(), "1 callback matches.")
	})
	b.click("button.danger")
	b.shows("All that matched are due now.")

	must(s.admin.Freeze(ctx, evilOf(200)))(t)
	b.open("/console/tokens")
	b.harmless("the banner of a freeze", 1, true, false)
	must(s.admin.Thaw(ctx))(t)
}

// makeAndChange makes a merchant and changes it. A form that is refused keeps what was typed, and after a post the back
// button leads to the page before it, and does nothing again.
func makeAndChange(t *testing.T, b *tab, s *serviceScene) {
	b.open("/console/merchants/new")
	b.send("/merchants/new", map[string]string{"id": "made", "name": "Made by clicking", "notifyUrl": "http://127.0.0.1:1/n", "withdrawUrl": "http://127.0.0.1:1/n"})
	b.shows("This was not done", "withdrawUrl is the notifyUrl")
	if got := get[string](b, `document.querySelector("#name").value`); got != "Made by clicking" {
		t.Errorf("the form forgot what was typed: %q", got)
	}
	b.send("/merchants/new", map[string]string{"withdrawUrl": "http://127.0.0.1:1/w"})
	b.shows("Shown this once", "Request key", "API key")
	key := get[string](b, `document.querySelector(".secret .id").dataset.copy`)
	if saved := get[string](b, `atob(document.querySelector("a[download]").href.split(",")[1])`); strings.TrimSpace(saved) != key || key == "" {
		t.Error("the file to save has another key than the page")
	}

	b.open("/console/merchants/made/change")
	b.send("/change", nil)
	b.shows("Nothing was changed")
	b.send("/change", map[string]string{"notifyUrl": "http://127.0.0.1:1/other", "ratePerSecond": "0.5"})
	b.shows("http://127.0.0.1:1/other", "Callbacks a second", "0.5")
	b.back()
	if m := must(s.admin.Merchant(t.Context(), "made"))(t); m.NotifyURL != "http://127.0.0.1:1/other" || m.RatePerSecond != 0.5 || m.Version != 2 {
		t.Errorf("%+v", m)
	}
}

// actAtGateway is a run through the gateway's console: one task, many at once, and two browsers.
func actAtGateway(t *testing.T, browser context.Context, s *shop) {
	ctx, b := t.Context(), newTab(t, browser, s.base)
	other := newTab(t, browser, s.base).signIn(s.token(client.RoleAdmin).Secret) // the first made the application's token
	b.signIn(s.token(client.RoleApprover).Secret)
	// What is held appears by itself.
	b.open("/console/?kind=order")
	o := s.held("acts-approve")
	b.await(`document.body.innerText.includes("acts-approve")`)
	b.click(`[id="task-order.acts-approve"]`)
	b.shows("1000.000000000000000001", "large amounts need a person")
	b.click(`a[href="/console/orders/acts-approve"]`)
	b.shows("1000.000000000000000001", "large amounts need a person")
	b.send("/note", map[string]string{"text": "noted about an order\nby telephone"})
	b.shows("Noted.", "noted about an order", "by telephone", "the approver")
	b.send("/approve", map[string]string{"reason": "because of a test"})
	b.shows("Approved.", "because of a test")
	b.back()
	if o := must(s.admin.Order(ctx, o.CallBackID))(t); o.State != client.OrderApproved {
		t.Errorf("approved: %s", o.State)
	}

	// Many at once, with what was typed kept where a form is refused. Copies are not credited together.
	var held []int64
	for n := range 3 {
		held = append(held, s.twice(40+n))
	}
	choose := func(verdict string) {
		t.Helper()
		b.open("/console/?kind=deposit")
		for _, seq := range held {
			b.press(fmt.Sprintf(`input[value="deposit.%d"]`, seq))
		}
		b.click(`button[value=` + verdict + `]`)
	}
	choose("approve")
	b.shows("Possible duplicates are left out: 3", "It can be done to none of them.")
	choose("decline")
	b.shows("deposit." + fmt.Sprint(held[0]))
	b.send("verdict=decline", map[string]string{"reason": "all of them looked at", "confirm": "yes"})
	b.shows("Type the word decline to confirm")
	if got := get[string](b, `document.querySelector("#reason").value`); got != "all of them looked at" {
		t.Errorf("the form holds %q", got)
	}
	last := s.twice(51) // came since they were chosen
	b.send("verdict=decline", map[string]string{"confirm": "decline"})
	b.shows("Declined.")
	for seq, want := range map[int64]client.DepositState{held[0]: client.DepositRejected, held[1]: client.DepositRejected, held[2]: client.DepositRejected, last: client.DepositHeld} {
		if d := must(s.admin.Deposit(ctx, seq))(t); d.State != want {
			t.Errorf("deposit %d: %+v", seq, d)
		}
	}

	// Two browsers that look at one order: the second is told what the first did.
	o = s.held("two-browsers")
	for _, tab := range []*tab{b, other} {
		tab.open("/console/orders/" + o.CallBackID)
	}
	b.send("/decline", nil)
	b.shows("Declined.")
	other.send("/approve", nil)
	other.shows("This was not done", "The order is declined")
}
