package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/console"
	"countersign/internal/lab/dbtest"
)

// evil is text that tries to be markup, code, a template and another direction of
// writing. It leaves the element #evil or the variable evil behind if it succeeds.
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

// walk opens every page of a console, wide and light as well as narrow and dark, and lets axe-core look at both. It fails
// unless each shows evil as text so many times at least and nothing else happens.
func (b *tab) walk(patterns []string, pages map[string]int) {
	b.t.Helper()
	mux, seen := http.NewServeMux(), map[string]bool{}
	for _, pattern := range patterns {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	for path, members := range pages {
		_, pattern := mux.Handler(httptest.NewRequest(http.MethodGet, path, nil))
		seen[pattern] = true
		b.size(1280, false)
		b.open(path)
		for width, rules := range map[int64][]string{1280: nil, 390: {"color-contrast", "scrollable-region-focusable", "target-size"}} { // what another width and other colours can break
			b.size(width, width == 390)
			b.accessible(fmt.Sprintf("%s, %d pixels", path, width), rules...)
			text := get[string](b, `document.body.textContent`)
			if n := strings.Count(text, evilPlain) + strings.Count(text, unspaced(evilPlain)); n < members {
				b.t.Errorf("%s shows it %d times as text, want %d\n%s", path, n, members, b.page())
			}
			if got := get[bool](b, `!!document.getElementById("evil") || typeof window.evil !== "undefined"`); got {
				b.t.Errorf("%s: the text became markup or code", path)
			}
			if got := get[int](b, `[...document.querySelectorAll("main bdi, main span, main pre, main td")].filter(e => /[\u202a-\u202e\u2066-\u2069\u200b-\u200f]/.test(e.textContent)).length`); got > 0 {
				b.t.Errorf("%s has %d elements with characters that turn the text around", path, got)
			}
			if over := get[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				b.t.Errorf("%s is %d pixels wider than a window of %d", path, over, width)
			}
		}
	}
	for _, pattern := range patterns {
		if strings.HasPrefix(pattern, "GET ") && !seen[pattern] {
			b.t.Errorf("no test opens %s", pattern)
		}
	}
}

// TestServicePages: what others wrote is shown as text, in every member, as long as the API takes it, on every page, which
// fits its window and can be read by everybody.
func TestServicePages(t *testing.T) {
	dbtest.Whole(t, "a browser opens every page with hostile text")
	dbtest.NotRaced(t, "other tests ask for the same pages, and the browser is a process of its own")
	browser := chromium(t)
	t.Parallel()
	base, token := node(t, nil)
	admin := serviceAPI(t, base, token)
	ctx := t.Context()
	long, short := evilOf(200), evilOf(64)
	m := client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: long, NotifyURL: "http://127.0.0.1:1/n?" + strings.Repeat("%3Cb%20id=evil%3E", 119), WithdrawURL: "http://127.0.0.1:1/'><bid=evil>" + strings.Repeat("W", 2000)},
	}
	if _, err := admin.CreateMerchant(ctx, m); err != nil {
		t.Fatal(err)
	}
	d := deposit(t, "shop", "t")
	d.TrackingID, d.TxID, d.TenantUserID, d.FromAddress, d.ToAddress, d.ChainName, d.Symbol = long, long, long, long, long, short, short
	accepted, err := admin.AddDeposits(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	in := client.NewWithdrawal{Merchant: "shop", CallBackID: long, TenantUserID: long, TrackingID: long,
		Details: &client.Details{Address: unspaced(long), ChainName: unspaced(short), Symbol: unspaced(short), Amount: amount(t, strings.Repeat("9", 60)+".000000000000000001")}}
	w, err := admin.CreateWithdrawal(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.PauseMerchant(ctx, "shop", long); err != nil {
		t.Fatal(err)
	}
	// A merchant whose answers have 4,000 characters of it.
	var key client.Secret
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"apiKey": key.Reveal(), "errCode": countersign.CodeUnknownOrder, "message": evilOf(4000), "data": evilOf(4000)})
	}))
	t.Cleanup(server.Close)
	made, err := admin.CreateMerchant(ctx, client.NewMerchant{ID: "liar", Key: &client.KeySpec{Bits: 1024}, MerchantSettings: client.MerchantSettings{Name: long, NotifyURL: server.URL + "/n", WithdrawURL: server.URL + "/w"}})
	if err != nil {
		t.Fatal(err)
	}
	key = made.APIKey
	in.Merchant = "liar"
	answered, err := admin.CreateWithdrawal(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	var question client.CallbackDetail
	await(t, "the liar has answered", func() bool {
		question, err = admin.Callback(ctx, answered.Callback)
		return err == nil && len(question.Attempts) > 0
	})
	person, err := admin.CreateToken(ctx, client.NewToken{Name: long, Role: client.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Freeze(ctx, long); err != nil {
		t.Fatal(err)
	}
	if _, err := serviceAPI(t, base, person.Secret).NoteTask(ctx, client.TaskID(client.TaskRelease, w.ID), evilOf(2000)); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, browser, base)
	b.open("/console/merchants")
	b.accessible("sign-in")
	b.fill("#token", person.Secret.Reveal())
	b.click(".signin button")
	b.await(`location.pathname === "/console/merchants"`) // where it wanted to go
	c, err := console.NewService(bareConfig)
	if err != nil {
		t.Fatal(err)
	}
	b.walk(c.Patterns(), map[string]int{
		"/console/":                                                 2, // the token's name and the reason of the freeze
		"/console/?kind=change&state=done":                          2,
		"/console/tasks/release." + w.ID:                            3,
		"/console/tasks/many?verdict=approve&id=release." + w.ID:    2,
		"/console/now":                                              3,
		"/console/merchants/new":                                    2,
		"/console/withdrawals?state=cancelled":                      2,
		"/console/resend?trackingId=none":                           2,
		"/console/search":                                           2,
		"/console/merchants":                                        4,
		"/console/merchants/shop":                                   4,
		"/console/merchants/shop/change":                            2,
		"/console/callbacks":                                        3,
		"/console/callbacks/" + accepted[0].ID:                      4,
		"/console/callbacks/" + w.Callback:                          4,
		"/console/callbacks/" + question.ID:                         4,
		"/console/withdrawals":                                      4,
		"/console/withdrawals/" + w.ID:                              8,
		"/console/withdrawals/" + answered.ID:                       7,
		"/console/audit":                                            2, // and in JSON, where quotes are escaped
		"/console/audit?subject=" + w.ID:                            2,
		"/console/tokens":                                           3,
		"/console/alarms":                                           3,
		"/console/stop":                                             3,
		"/console/resend?merchant=shop&trackingId=" + queryOf(long): 3,
		"/console/callbacks?trackingId=" + queryOf(long):            3,
		"/console/search?q=" + queryOf(long):                        3,
		"/console/search?q=none" + queryOf(long):                    2,
		"/console/nothing?" + queryOf(evil):                         2,
	})
}

// unspaced keeps s hostile in visible ASCII, as the address, chain and symbol of an order are: a
// browser reads a slash between attributes like a space.
func unspaced(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '/'
		}
		return r
	}, s)
}

// TestGatewayPages is TestServicePages of the gateway. The service writes what it likes: 1,000 bytes into identifiers,
// 4,000 characters into the rest.
func TestGatewayPages(t *testing.T) {
	dbtest.Whole(t, "a browser opens every page with hostile text")
	dbtest.NotRaced(t, "other tests ask for the same pages, and the browser is a process of its own")
	browser := chromium(t)
	t.Parallel()
	s, ctx := newShop(t), t.Context()
	id, long := evilOf(200)+strings.Repeat("W", 750), evilOf(4000)
	d := countersigntest.Deposit(1)
	d.TrackingID, d.TenantUserID, d.TxID, d.FromAddress, d.ToAddress, d.ChainName, d.Symbol = id, id, long, long, long, long, long
	s.tell(d)
	again := *d
	again.TrackingID = "again-" + evilOf(200)
	s.tell(&again)
	list, err := s.admin.SearchDeposits(ctx, client.DepositSearch{TrackingID: again.TrackingID}, client.PageOptions{})
	if err != nil || len(list.Deposits) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	second := list.Deposits[0]
	// An order: what the application may write, and what a person and the service add.
	o := client.NewOrder{CallBackID: evilOf(200), TenantUserID: evilOf(200), Address: unspaced(evilOf(200)), ChainName: unspaced(evilOf(64)), Symbol: unspaced(evilOf(64)), Amount: amount(t, "5"),
		Labels: map[string]string{evilOf(60): evilPlain}}
	if _, err := s.app.AddOrder(ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := s.app.CancelOrder(ctx, o.CallBackID, evilOf(500)); err != nil {
		t.Fatal(err)
	}
	notice := countersigntest.Notice(countersign.TypeWithdraw, 1).(*countersign.WithdrawalDone)
	notice.TrackingID, notice.TenantUserID, notice.CallBackID = id, o.TenantUserID, o.CallBackID
	notice.TxID, notice.ChainName, notice.Symbol, notice.ToAddress = long, long, long, long
	s.tell(notice)
	s.tell(&countersign.AddressChange{Head: countersign.Head{TrackingID: id + "-moved", TenantUserID: evilOf(200)}, ChainName: long, Symbol: long,
		ToAddress: "old" + long, NewAddress: long})
	if _, err := s.admin.DeclineTask(ctx, "address.1", evilOf(500)); err != nil {
		t.Fatal(err)
	}
	person, err := s.admin.CreateToken(ctx, client.NewToken{Name: evilOf(200), Role: client.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	as := s.as(person.Secret)
	if _, err := as.DeclineTask(ctx, client.DepositTask(second.Seq), evilOf(500)); err != nil {
		t.Fatal(err)
	}
	contrary := *d
	contrary.TenantUserID, contrary.Symbol = evilOf(300), long
	s.service.Deliver(ctx, s.to, &contrary)
	if _, err := as.DeclineTask(ctx, "refused.1", evilOf(500)); err != nil {
		t.Fatal(err)
	}
	alarms, err := as.Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{})
	if err != nil || len(alarms.Alarms) == 0 {
		t.Fatalf("%+v, %v", alarms, err)
	}
	if _, err := as.AckAlarm(ctx, alarms.Alarms[0].Seq, client.Ack{Note: evilOf(1000)}); err != nil {
		t.Fatal(err)
	}
	if _, err := as.NoteTask(ctx, client.TaskID(client.TaskOrder, o.CallBackID), evilOf(2000)); err != nil {
		t.Fatal(err)
	}
	if _, err := as.NoteTask(ctx, "deposit.2", evilOf(2000)); err != nil {
		t.Fatal(err)
	}
	s.held("looked-at")
	b := newTab(t, browser, s.base)
	b.signIn(person.Secret)
	try := "amount=5&symbol=" + queryOf(evilOf(64)) + "&chainName=" + queryOf(evilOf(64)) + "&address=" + queryOf(evilOf(200)) + "&tenantUserId=" + queryOf(evilOf(200))
	b.walk(gatewayPatterns(t), map[string]int{
		"/console/":            1, // the token's name
		"/console/?kind=order": 1,
		"/console/tasks/many?verdict=decline&id=order.looked-at": 1,
		"/console/orders/looked-at":                              1,
		"/console/orders?since=yesterday":                        1,
		"/console/orders?tenantUserId=none":                      1,
		"/console/addresses?state=held":                          1,
		"/console/policy":                                        1,
		"/console/policy?amount=1e5":                             1,
		"/console/deposits":                                      9,
		"/console/deposits/1":                                    7,
		"/console/addresses":                                     4,
		"/console/addresses/1":                                   6,
		"/console/deposits/2":                                    14,
		"/console/orders":                                        5,
		"/console/orders/" + pathOf(o.CallBackID):                6,
		"/console/policy?" + try:                                 1,
		"/console/forwarding":                                    1,
		"/console/?state=declined":                               5,
		"/console/tasks/deposit.2":                               14,
		"/console/refused/1":                                     6,
		"/console/search?q=" + queryOf(id):                       1,
		"/console/alarms?state=all":                              2,
		"/console/tokens":                                        2,
		"/console/audit":                                         2,
		"/console/audit?subject=" + queryOf(o.CallBackID):        2,
		"/console/deposits?trackingId=" + queryOf(evilOf(200)):   1,
	})
	// A viewer sees and does nothing.
	viewer := newTab(t, browser, s.base)
	viewer.signIn(s.token(client.RoleViewer).Secret)
	viewer.open("/console/orders/looked-at")
	viewer.shows("large amounts need a person")
	if n := get[int](viewer, `document.querySelectorAll("main form").length`); n != 0 {
		t.Errorf("a viewer has %d forms", n)
	}
	viewer.open("/console/tokens")
	viewer.lacks("Make a token")
}
