package console_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"countersign"
	"countersign/client"
	"countersign/internal/console"
	"countersign/internal/lab/dbtest"
)

// TestServiceActs does everything by clicking that the service's console can do. After each
// post the back button leads to the page before it, and does nothing again.
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
	step := func(of, says string) { // of a rotation
		t.Helper()
		b.open(page)
		act := `details:has(form[action$="/rotation/` + of + `"])`
		b.press(act + " > summary")
		b.click(act + " button")
		b.shows(says)
	}
	acts := map[string]func(){
		"POST /console/merchants/new": func() {
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
		},
		"POST /console/merchants/{id}/pause": func() {
			b.open(page)
			b.press("details.act > summary")
			b.fill("#reason", "a test")
			b.click("details[open] button.danger")
			b.shows("Paused: callbacks are accepted and not sent.", "a test")
			if m := merchant(); m.State != client.MerchantPaused {
				t.Errorf("it is %s", m.State)
			}
			back(version)
		},
		"POST /console/merchants/{id}/resume": func() {
			b.open(page)
			b.press("details.act > summary")
			b.press("input[name=resend]")
			b.click("details[open] button.main")
			b.shows("Resumed.")
			if m := merchant(); m.State != client.MerchantActive {
				t.Errorf("it is %s", m.State)
			}
			back(version)
		},
		"POST /console/merchants/{id}/test": func() {
			tests := func() string {
				of, err := w.admin.Callbacks(ctx, client.CallbackFilter{Merchant: w.away, TenantUserID: "test"}, client.PageOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return strconv.Itoa(len(of.Callbacks))
			}
			before := tests()
			b.open(page)
			b.click(`form[action$="/test"] button`)
			b.shows("Due now.", "TEST")
			if before != "0" || tests() != "1" {
				t.Errorf("%s test deposits before the click, %s after it", before, tests())
			}
			back(tests)
		},
		"POST /console/merchants/{id}/change": func() {
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
		},
		"POST /console/merchants/{id}/rotation": func() {
			b.open(page)
			act := `details:has(form[action$="/rotation"])`
			b.press(act + " > summary")
			b.fill("#stage-bits", "1024")
			b.click(act + " button")
			b.shows("Shown this once", "Newer keys of "+w.away, "Request key")
			b.open(page)
			b.lacks("Replace keys")
			if m := merchant(); m.Rotation == nil || m.Rotation.State != client.RotationStaged || len(m.Rotation.Others) == 0 {
				t.Errorf("%+v", m.Rotation)
			}
			back(version)
		},
		"POST /console/merchants/{id}/rotation/activate": func() {
			before := merchant()
			step("activate", "Activated:")
			if m := merchant(); m.Rotation == nil || m.Rotation.State != client.RotationActive || m.Fingerprint == before.Fingerprint {
				t.Errorf("%+v", m.Rotation)
			}
			back(version)
		},
		"POST /console/merchants/{id}/rotation/finish": func() {
			before := merchant()
			step("finish", "Finished:")
			if m := merchant(); m.Rotation != nil || m.Fingerprint != before.Fingerprint {
				t.Errorf("%+v", m.Rotation)
			}
			back(version)
		},
		"POST /console/merchants/{id}/rotation/cancel": func() {
			before := merchant()
			if _, err := w.admin.StageRotation(ctx, w.away, client.NewRotation{MakeAPIKey: true}); err != nil {
				t.Fatal(err)
			}
			step("cancel", "The newer keys have ended.")
			if m := merchant(); m.Rotation != nil || m.Fingerprint != before.Fingerprint {
				t.Errorf("%+v", m.Rotation)
			}
			back(version)
		},
		"POST /console/callbacks/{id}/resend": func() {
			page := "/console/callbacks/" + w.pending.ID
			// While it is being sent there is nothing to press.
			for b.open(page); !get[bool](b, `document.querySelector("main .acts button") !== null`); b.open(page) {
			}
			b.click("main .acts button")
			b.shows("Due now.")
			b.do(chromedp.NavigateBack())
		},
		"POST /console/resend": func() {
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
		},
		"POST /console/withdrawals/{id}/cancel": func() {
			b.open("/console/withdrawals/" + w.withdrawal.ID)
			b.shows("12.500000000000000001") // to the last digit
			b.press("details.act > summary")
			b.click("details[open] button.danger")
			b.shows("Cancelled.")
			state := func() string {
				got, err := w.admin.Withdrawal(ctx, w.withdrawal.ID)
				if err != nil {
					t.Fatal(err)
				}
				return string(got.State)
			}
			if state() != "cancelled" {
				t.Error(state())
			}
			back(state)
		},
		"POST /console/withdrawals/{id}/block": func() {
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
			second.picture("approve-withdrawal-wide")
			second.size(390, false)
			second.picture("approve-withdrawal-narrow")
			second.size(1280, false)
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
		},
		"POST /console/stop/freeze": func() {
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
			b.picture("frozen-wide")
			b.size(390, true)
			b.accessible("the banner while frozen, dark")
			b.size(1280, false)
		},
		"POST /console/stop/thaw": func() {
			b.open("/console/stop")
			b.fill("#confirm", "thaw")
			b.click("button.main")
			b.shows("Thawed")
			b.lacks("Frozen since")
			if f, err := w.admin.Frozen(ctx); err != nil || f.Frozen {
				t.Errorf("%+v, %v", f, err)
			}
		},
		"POST /console/tokens": func() {
			b.open("/console/tokens")
			b.press("main > details.act > summary")
			b.fill("#name", w.away+" <b>token</b>")
			b.do(chromedp.SetValue(chromedp.CSS("#role"), "viewer"))
			b.click("details[open] button.main")
			b.shows("Shown this once")
			token := client.Secret(get[string](b, `document.querySelector(".secret .id").dataset.copy`))
			if self, err := w.api(t, token).Self(ctx); err != nil || self.Role != client.RoleViewer || self.Name != w.away+" <b>token</b>" {
				t.Errorf("%+v, %v", self, err)
			}
		},
		"POST /console/tokens/{id}/revoke": func() {
			made := w.token(t, client.RoleViewer)
			b.open("/console/tokens")
			act := `details:has(form[action$="` + made.ID + `/revoke"])`
			b.press(act + " > summary")
			b.click(act + " button")
			b.shows("Revoked:")
			if _, err := w.api(t, made.Secret).Self(ctx); err == nil {
				t.Error("the token is valid still")
			}
		},
		"POST /console/tasks/{id}/note": func() {
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
		},
		"POST /console/tasks/{id}/approve": func() {}, // see block and TestProviderInBrowser
		"POST /console/tasks/{id}/decline": func() {}, // see TestGatewayActs
		"POST /console/tasks/many":         func() {}, // see TestGatewayActs
		"POST /console/alarms/ack": func() {
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
			b.shows("All that were shown are acknowledged.")
			if a, err := w.admin.Alarms(ctx, client.AlarmFilter{Merchant: "demo", State: client.AlarmAcked}, client.PageOptions{}); err != nil || len(a.Alarms) < 2 || a.Alarms[0].AckedNote != "all looked at" {
				t.Errorf("acknowledged %+v, %v", a, err)
			}
		},
		"POST /console/alarms/{seq}/ack": func() {
			b.open("/console/alarms")
			id := regexp.MustCompile(`/console/alarms/(\d+)/ack`).FindString(get[string](b, `document.querySelector(".alarm form").action`))
			b.click(`form[action$="` + id + `"] button`)
			b.shows("Acknowledged.")
			if get[bool](b, `!!document.querySelector('form[action$="`+id+`"]')`) {
				t.Error("the alarm is open still")
			}
			b.do(chromedp.NavigateBack())
		},
	}
	c, err := console.NewService(bareConfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range c.Patterns() {
		if !strings.HasPrefix(pattern, "POST ") {
			continue
		}
		act, known := acts[pattern]
		if !known {
			t.Errorf("no test clicks for %s", pattern)
			continue
		}
		t.Logf("%s", pattern)
		act()
	}
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
	for decided, err := range w.admin.FollowDecisions(ctx, 0) {
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
