package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"countersign/client"
	"countersign/internal/console"
	"countersign/internal/lab/dbtest"
)

// withoutScripts turns JavaScript off for the pages of the tab.
func (b *tab) withoutScripts() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.t.Fatal(err)
	}
}

// scriptless opens every page and fails unless it shows a heading and says that times are
// UTC, which no script has changed.
func (b *tab) scriptless(patterns []string, paths map[string]string) {
	b.t.Helper()
	for _, pattern := range patterns {
		path, known := paths[pattern]
		switch {
		case strings.HasPrefix(pattern, "GET ") && !known:
			b.t.Errorf("no test opens %s without JavaScript", pattern)
		case path != "":
			b.open(path)
			if !get[bool](b, `!!document.querySelector("h1") && document.querySelector("footer noscript").innerText.includes("Times are UTC")`) {
				b.t.Errorf("%s is not whole\n%s", path, b.page())
			}
			if get[bool](b, `!!document.querySelector(".copy")`) {
				b.t.Errorf("%s: a script ran", path)
			}
		}
	}
}

// act opens what a summary hides, fills in a reason where the form has one, and sends it.
func (b *tab) act(form, says string) {
	b.t.Helper()
	in := `form[action$="` + form + `"]`
	if get[bool](b, `!!document.querySelector('details:has(`+in+`):not([open])')`) {
		b.press(`details:has(` + in + `) > summary`)
	}
	if get[bool](b, `!!document.querySelector('`+in+` input[name=reason]')`) {
		b.fill(in+` input[name=reason]`, "without scripts")
	}
	b.click(in + ` button:not([type=button])`)
	b.shows(says)
}

// TestServiceWithoutScripts: all of the service's console but live pages and the provider
// works in a browser without JavaScript.
func TestServiceWithoutScripts(t *testing.T) {
	dbtest.Whole(t, "a browser walks through every form")
	dbtest.NotRaced(t, "other tests ask for the same pages, and the browser is a process of its own")
	browser := chromium(t)
	t.Parallel()
	base, token := node(t, nil)
	admin, ctx := serviceAPI(t, base, token), t.Context()
	if _, err := admin.CreateMerchant(ctx, client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"},
	}); err != nil {
		t.Fatal(err)
	}
	accepted, err := admin.AddDeposits(ctx, deposit(t, "shop", "d-1"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := admin.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: "w-1", TenantUserID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	b := newTab(t, browser, base)
	b.withoutScripts()
	b.signIn(token)
	c, err := console.NewService(bareConfig)
	if err != nil {
		t.Fatal(err)
	}
	b.scriptless(c.Patterns(), map[string]string{
		"GET /console/{$}":                   "/console/",
		"GET /console/tasks/{id}":            "/console/tasks/release." + w.ID,
		"GET /console/tasks/many":            "/console/tasks/many?verdict=approve&id=release." + w.ID,
		"GET /console/now":                   "/console/now",
		"GET /console/merchants":             "/console/merchants",
		"GET /console/merchants/new":         "/console/merchants/new",
		"GET /console/merchants/{id}":        "/console/merchants/shop",
		"GET /console/merchants/{id}/change": "/console/merchants/shop/change",
		"GET /console/callbacks":             "/console/callbacks",
		"GET /console/callbacks/{id}":        "/console/callbacks/" + accepted[0].ID,
		"GET /console/resend":                "/console/resend?merchant=shop",
		"GET /console/withdrawals":           "/console/withdrawals",
		"GET /console/withdrawals/{id}":      "/console/withdrawals/" + w.ID,
		"GET /console/alarms":                "/console/alarms?state=all",
		"GET /console/alarms/ack":            "/console/alarms/ack?merchant=shop",
		"GET /console/tokens":                "/console/tokens",
		"GET /console/audit":                 "/console/audit?text=shop",
		"GET /console/search":                "/console/search?q=shop-none",
		"GET /console/stop":                  "/console/stop",
	})
	b.open("/console/callbacks")
	b.fill("#trackingId", "d-1")
	b.click("form.search button")
	b.shows("d-1", "pending")
	b.open("/console/merchants/shop")
	b.act("/pause", "Paused:")
	b.act("/resume", "Resumed.")
	b.open("/console/withdrawals/" + w.ID)
	b.act("/cancel", "Cancelled.")
	b.open("/console/callbacks")
	b.press("details.folded > summary")
	b.fill("#address", deposit(t, "shop", "d-1").ToAddress)
	b.fill("#since", "12h")
	b.click("form.search button")
	b.shows("d-1", "pending")
	b.fill("#until", "yesterday")
	b.click("form.search button")
	b.shows(`"yesterday" is no time`)
	b.open("/console/merchants/shop/change")
	b.fill("#releaseWithin", "2h")
	b.click("form.fields button.main")
	b.shows("Changed.", "2h")
	b.open("/console/merchants/shop/change")
	b.fill("#releaseWithin", "1s")
	b.click("form.fields button.main")
	b.shows("This was not done:", "releaseWithin is not between 1m and 8760h")
	if m, err := admin.Merchant(ctx, "shop"); err != nil || m.ReleaseWithin.String() != "2h0m0s" {
		t.Errorf("%+v, %v", m, err)
	}
	rotation := func(step, button string) {
		t.Helper()
		b.open("/console/merchants/shop")
		b.press(fmt.Sprintf(`details:has(form[action$="/rotation%s"]) > summary`, step))
		b.click(fmt.Sprintf(`form[action$="/rotation%s"] button`, step))
		b.shows(button)
	}
	rotation("", "No key was chosen")
	b.open("/console/merchants/shop")
	b.press(`details:has(form[action$="/rotation"]) > summary`)
	b.press(`form[action$="/rotation"] input[name=callbackApiKey]`)
	b.click(`form[action$="/rotation"] button`)
	b.shows("Newer keys of shop", "Callback API key")
	b.lacks("Request key")
	if m, err := admin.Merchant(ctx, "shop"); err != nil || m.Rotation == nil || m.Rotation.State != client.RotationStaged {
		t.Errorf("%+v, %v", m.Rotation, err)
	}
	rotation("/activate", "Activated:")
	rotation("/cancel", "The older ones seal, alone.")
	b.open("/console/merchants/shop")
	b.press(`details:has(form[action$="/rotation"]) > summary`)
	b.press(`form[action$="/rotation"] input[name=apiKey]`)
	b.click(`form[action$="/rotation"] button`)
	b.shows("Newer keys of shop")
	rotation("/activate", "Activated:")
	rotation("/finish", "the older keys have ended")
	if m, err := admin.Merchant(ctx, "shop"); err != nil || m.Rotation != nil {
		t.Errorf("%+v, %v", m.Rotation, err)
	}
}

// TestGatewayWithoutScripts is the same of the gateway.
func TestGatewayWithoutScripts(t *testing.T) {
	dbtest.Whole(t, "a browser walks through every form")
	dbtest.NotRaced(t, "other tests ask for the same pages, and the browser is a process of its own")
	browser := chromium(t)
	t.Parallel()
	s, ctx := newShop(t), t.Context()
	o, other, third := s.held("plain-1"), s.held("plain-2"), s.held("plain-3")
	seq := s.twice(1)
	s.moved("plain")
	refused := s.misdirected(7)
	b := newTab(t, browser, s.base)
	b.withoutScripts()
	b.signIn(s.token(client.RoleAdmin).Secret) // not the first: it made the token that ordered
	b.shows("1000.000000000000000001")
	b.scriptless(gatewayPatterns(t), map[string]string{
		"GET /console/{$}":             "/console/",
		"GET /console/tasks/{id}":      "/console/tasks/order." + o.CallBackID,
		"GET /console/tasks/many":      "/console/tasks/many?verdict=decline&id=order." + o.CallBackID,
		"GET /console/orders":          "/console/orders?state=held",
		"GET /console/orders/{id}":     "/console/orders/" + o.CallBackID,
		"GET /console/deposits":        "/console/deposits",
		"GET /console/deposits/{seq}":  fmt.Sprintf("/console/deposits/%d", seq),
		"GET /console/addresses":       "/console/addresses",
		"GET /console/addresses/{seq}": "/console/addresses/1",
		"GET /console/refused/{seq}":   fmt.Sprintf("/console/refused/%d", refused),
		"GET /console/search":          "/console/search?q=none",
		"GET /console/policy":          "/console/policy",
		"GET /console/forwarding":      "/console/forwarding",
		"GET /console/alarms":          "/console/alarms?state=all",
		"GET /console/alarms/ack":      "/console/alarms/ack?kind=address_changed",
		"GET /console/tokens":          "/console/tokens",
		"GET /console/audit":           "/console/audit?subject=" + o.CallBackID,
	})
	b.open("/console/orders")
	b.fill("input[name=q]", other.CallBackID)
	b.do(chromedp.Submit(chromedp.CSS("form.everything")))
	b.await(`location.pathname === "/console/orders/` + other.CallBackID + `"`)
	b.open("/console/policy")
	for field, value := range map[string]string{"amount": "1000.5", "symbol": "USDT", "chainName": "TRON", "address": "TTarget", "tenantUserId": "user-7"} {
		b.fill("#"+field, value)
	}
	b.click("form.search button")
	b.shows("A person decides.", "large amounts need a person")
	for form, order := range map[string]client.NewOrder{"approve": o, "decline": other, "cancel": third} {
		b.open("/console/orders/" + order.CallBackID)
		b.act("/"+form, map[string]string{"approve": "Approved.", "decline": "Declined.", "cancel": "Cancelled."}[form])
		got, err := s.admin.Order(ctx, order.CallBackID)
		want := map[string]client.OrderState{"approve": client.OrderApproved, "decline": client.OrderDeclined, "cancel": client.OrderCancelled}[form]
		if err != nil || got.State != want || got.Reason != "without scripts" {
			t.Errorf("%s: %+v, %v", form, got, err)
		}
	}
	b.open(fmt.Sprintf("/console/deposits/%d", seq))
	b.act("/approve", "Approved.")
	b.open("/console/addresses/1")
	b.act("/decline", "Declined.")
	b.open("/console/forwarding")
	b.act("/forwarding/retry", "Due now.")
	b.open("/console/alarms")
	if get[bool](b, `!!document.querySelector("form[action$='/ack']")`) {
		b.click(`form[action$="/ack"] button`)
		b.shows("Acknowledged.")
	}
}
