package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"countersign"
	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// TestServiceActs is one run through the service's console by clicking. A form that is refused keeps what was typed, and
// after a post the back button leads to the page before it, and does nothing again. TestPosts says what every form does.
func TestServiceActs(t *testing.T) {
	dbtest.Whole(t, "a browser presses every button")
	browser := chromium(t)
	w := newWorld(t)
	b := newTab(t, browser, w.service)
	b.signIn(w.first(t, "service"))
	ctx := t.Context()
	merchant := func() client.Merchant {
		m, err := w.admin.Merchant(ctx, w.away)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	// back goes back and checks that this changed nothing.
	back := func(state func() string) {
		t.Helper()
		before := state()
		// Where the page before is the answer to a post, the browser asks whether to post again.
		if err := chromedp.Do(b.ctx, chromedp.NavigateBack()); err != nil && !strings.Contains(err.Error(), "ERR_CACHE_MISS") {
			t.Fatal(err)
		}
		b.await(`document.readyState === "complete"`)
		if after := state(); after != before {
			t.Errorf("the back button did something: %s, then %s", before, after)
		}
	}
	version := func() string { m := merchant(); return string(m.State) + m.Fingerprint + m.NotifyURL + m.PausedReason }
	page := "/console/merchants/" + w.away
	run := func(name string, act func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			b.t = t
			act(t)
		})
		b.t = t
	}
	run("merchants/new", func(t *testing.T) {
		b.open("/console/merchants/new")
		b.fill("#id", w.away+"-made")
		b.fill("#name", "Made by clicking")
		b.fill("#notifyUrl", "http://127.0.0.1:1/n")
		b.fill("#withdrawUrl", "http://127.0.0.1:1/n")
		b.click("button.main")
		b.shows("This was not done", "withdrawUrl is the notifyUrl")
		if got := get[string](b, `document.querySelector("#name").value`); got != "Made by clicking" {
			t.Errorf("the form forgot what was typed: %q", got)
		}
		b.fill("#withdrawUrl", "http://127.0.0.1:1/w")
		b.click("button.main")
		b.shows("Shown this once", "Request key", "API key")
		key := get[string](b, `document.querySelector(".secret .id").dataset.copy`)
		if saved := get[string](b, `atob(document.querySelector("a[download]").href.split(",")[1])`); strings.TrimSpace(saved) != key || key == "" {
			t.Error("the file to save has another key than the page")
		}
		if _, err := w.admin.Merchant(ctx, w.away+"-made"); err != nil {
			t.Error(err)
		}
	})
	run("merchants/{id}/change", func(t *testing.T) {
		b.open(page + "/change")
		b.click("button.main")
		b.shows("Nothing was changed")
		b.open(page + "/change")
		b.fill("#notifyUrl", "http://127.0.0.1:1/other")
		b.fill("#ratePerSecond", "0.5")
		b.click("button.main")
		b.shows("http://127.0.0.1:1/other", "Callbacks a second", "0.5")
		if m := merchant(); m.NotifyURL != "http://127.0.0.1:1/other" || m.RatePerSecond != 0.5 {
			t.Errorf("%+v", m)
		}
		back(version)
	})
	run("resend", func(t *testing.T) {
		b.open("/console/callbacks")
		b.do(chromedp.SetValue(chromedp.CSS("#merchant"), w.away), chromedp.SendKeys(chromedp.CSS("#txId"), "0xwaits-2\r"))
		// The field and the form each search: wait for the last answer.
		b.await(`(a => !!a && a.href.includes("0xwaits-2") && !document.querySelector(".htmx-request"))(document.querySelector("a[href^='/console/resend']"))`)
		time.Sleep(300 * time.Millisecond)
		b.click("a[href^='/console/resend']")
		for range 20 { // while it is being sent it does not match
			if strings.Contains(b.page(), "1 callback matches.") {
				break
			}
			time.Sleep(200 * time.Millisecond)
			b.do(chromedp.Reload())
		}
		b.shows("1 callback matches.")
		b.click("button.danger")
		b.shows("All that matched are due now.")
	})
	run("withdrawals/{id}/block", func(t *testing.T) {
		core, other := w.token(t, client.RoleCore), w.token(t, client.RoleAdmin)
		got := w.confirmed(t, w.api(t, core.Secret))
		limits := client.MerchantPatch{MerchantSettings: client.MerchantSettings{ApproveAbove: client.AmountLimits{{Symbol: "usdt", Above: amount(t, "1")}}}}
		if _, err := w.admin.UpdateMerchant(ctx, "demo", limits); err != nil {
			t.Fatal(err)
		}
		// Whoever made the token that ordered it cannot agree to it; another admin can.
		b.open("/console/withdrawals/" + got.ID)
		b.shows("1 of 1 approval is missing", "You cannot approve it")
		second := newTab(t, browser, w.service)
		second.signIn(other.Secret)
		second.open("/console/withdrawals/" + got.ID)
		second.shows("1 of 1 approval is missing", "could give it")
		second.press("details.act > summary.main")
		second.fill("#approve-reason", "the user was called")
		second.accessible("a withdrawal that a person must approve")
		second.click("details[open] button.main")
		second.shows("Approved.", "the user was called")
		second.lacks("is missing")
		if _, err := w.admin.UpdateMerchant(ctx, "demo", client.MerchantPatch{Clear: []string{"approveAbove"}}); err != nil {
			t.Fatal(err)
		}
		b.open("/console/withdrawals/" + got.ID)
		b.press(`details:has(form[action$="/block"]) > summary`)
		b.fill("#reason", "a test")
		b.fill("#confirm", "something else")
		b.click("details[open] button.danger")
		b.shows("Type the word block")
		b.open("/console/withdrawals/" + got.ID)
		b.press(`details:has(form[action$="/block"]) > summary`)
		b.fill("#reason", "a test")
		b.fill("#confirm", "block")
		b.click("details[open] button.danger")
		b.shows("Blocked: it is never released.", "a test")
	})
	run("stop/freeze", func(t *testing.T) {
		b.open("/console/stop")
		b.fill("#reason", "a test of the freeze")
		b.fill("#confirm", "no")
		b.click("button.danger")
		b.shows("Type the word freeze")
		b.fill("#confirm", "freeze")
		b.click("button.danger")
		b.open("/console/callbacks")
		b.shows("Frozen since", "a test of the freeze")
		b.accessible("the banner while frozen")
		b.size(390, true)
		b.accessible("the banner while frozen, dark")
		b.size(1280, false)
	})
	run("stop/thaw", func(t *testing.T) {
		b.open("/console/stop")
		b.fill("#confirm", "thaw")
		b.click("button.main")
		b.shows("Thawed")
		b.lacks("Frozen since")
		if f, err := w.admin.Frozen(ctx); err != nil || f.Frozen {
			t.Errorf("%+v, %v", f, err)
		}
	})
	run("tasks/{id}/note", func(t *testing.T) {
		b.open("/console/withdrawals/" + w.decided.ID)
		b.fill("#note", "asked the merchant\nby telephone")
		b.click(".note-form button")
		b.shows("Noted.", "asked the merchant", "by telephone")
		if n, err := w.admin.Task(ctx, client.TaskID(client.TaskRelease, w.decided.ID)); err != nil || len(n.Votes) != 1 || n.Votes[0].Note != "asked the merchant\nby telephone" {
			t.Errorf("%+v, %v", n, err)
		}
		// A long text that is refused stays in its field.
		long := strings.Repeat("the merchant says that it has the deposit; ", 45)
		get[bool](b, `document.querySelector("#note").removeAttribute("maxlength") || true`)
		b.fill("#note", long+strings.Repeat("x", 100))
		b.click(".note-form button")
		b.shows("text is longer than 2000 characters")
		if got := get[string](b, `document.querySelector("#note").value`); got != long+strings.Repeat("x", 100) {
			t.Errorf("the field has %d characters of %d", len(got), len(long)+100)
		}
		b.do(chromedp.NavigateBack())
	})
	run("alarms/ack", func(t *testing.T) {
		b.open("/console/alarms?merchant=demo")
		open, err := w.admin.Alarms(ctx, client.AlarmFilter{Merchant: "demo", State: client.AlarmOpen}, client.PageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(open.Alarms) < 2 {
			t.Fatalf("%d alarms are open", len(open.Alarms))
		}
		b.fill(`form[action="/console/alarms/ack"] [name=note]`, "all looked at")
		b.click(`form[action="/console/alarms/ack"] button`)
		b.shows("Acknowledged.")
		if a, err := w.admin.Alarms(ctx, client.AlarmFilter{Merchant: "demo", State: client.AlarmAcked}, client.PageOptions{}); err != nil || len(a.Alarms) < 2 || a.Alarms[0].AckedNote != "all looked at" {
			t.Errorf("acknowledged %+v, %v", a, err)
		}
	})
}

// confirmed is a withdrawal that the demo's merchant confirms, since it has the order.
func (w *world) confirmed(t *testing.T, core *client.Service) client.Withdrawal {
	t.Helper()
	ctx := t.Context()
	g, err := client.NewGateway(client.Config{URL: w.gateway, Token: w.first(t, "merchant")})
	if err != nil {
		t.Fatal(err)
	}
	id := w.away + "-confirmed"
	d := client.Details{Address: "TTarget", ChainName: "TRON", Symbol: "USDT", Amount: amount(t, "1.25")}
	if _, err := g.AddOrder(ctx, client.NewOrder{CallBackID: id, TenantUserID: "user-7", Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}); err != nil {
		t.Fatal(err)
	}
	made, err := core.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "demo", CallBackID: id, TenantUserID: "user-7", Details: &d})
	if err != nil {
		t.Fatal(err)
	}
	for decided, err := range client.Follow(ctx, w.admin.Decisions, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if decided.Withdrawal.ID == made.ID {
			if decided.Withdrawal.Decision != countersign.DecisionConfirmed {
				t.Fatalf("%+v", decided.Withdrawal)
			}
			return decided.Withdrawal
		}
	}
	return client.Withdrawal{}
}
