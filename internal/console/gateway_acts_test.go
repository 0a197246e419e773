package console_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
)

// TestGatewayActs decides by clicking; after each post the back button does nothing again.
func TestGatewayActs(t *testing.T) {
	dbtest.Whole(t, "a browser presses every button")
	browser := chromium(t)
	t.Parallel()
	ctx, s := t.Context(), newShop(t)
	b := newTab(t, browser, s.base)
	anotherAdmin := s.token(client.RoleAdmin).Secret // the first made the application's token
	b.signIn(s.token(client.RoleApprover).Secret)
	state := func(id string) client.OrderState {
		t.Helper()
		o, err := s.admin.Order(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return o.State
	}
	act := func(path, form, says string) {
		t.Helper()
		b.open(path)
		b.press(`details:has(form[action$="/` + form + `"]) > summary`)
		b.fill(`form[action$="/`+form+`"] input[name=reason]`, "because of a test")
		b.click(`form[action$="/` + form + `"] button`)
		b.shows(says, "because of a test")
		b.do(chromedp.NavigateBack())
	}
	for form, want := range map[string]client.OrderState{"approve": client.OrderApproved, "decline": client.OrderDeclined} {
		o := s.held("acts-" + form)
		act("/console/orders/"+o.CallBackID, form, map[string]string{"approve": "Approved.", "decline": "Declined."}[form])
		if got := state(o.CallBackID); got != want {
			t.Errorf("%s: %s", form, got)
		}
	}
	says := map[string]string{"approve": "Approved.", "decline": "Declined."}
	for form, want := range map[string]client.DepositState{"approve": client.DepositCredited, "decline": client.DepositRejected} {
		seq := s.twice(len(form) + int(want[0]))
		act(fmt.Sprintf("/console/deposits/%d", seq), form, says[form])
		if d, err := s.admin.Deposit(ctx, seq); err != nil || d.State != want {
			t.Errorf("%s: %+v, %v", form, d, err)
		}
	}
	for form, want := range map[string]client.AddressState{"approve": client.AddressAccepted, "decline": client.AddressRejected} {
		seq := s.moved(form)
		act(fmt.Sprintf("/console/addresses/%d", seq), form, says[form])
		if a, err := s.admin.Address(ctx, seq); err != nil || a.State != want {
			t.Errorf("%s: %+v, %v", form, a, err)
		}
	}
	for form, want := range map[string]client.RefusedState{"approve": client.RefusedTaken, "decline": client.RefusedDismissed} {
		id := s.misdirected(int(want[0]))
		b.open("/console/?kind=refused")
		b.shows("wrong url")
		act(fmt.Sprintf("/console/refused/%d", id), form, says[form])
		b.shows("belongs to the other URL", "Explained", "callback type 1")
		if x, err := s.admin.RefusedCallback(ctx, id); err != nil || x.State != want {
			t.Errorf("%s: %+v, %v", form, x, err)
		}
		for _, width := range []int64{1280, 390} {
			b.size(width, false)
			if over := get[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%d pixels wider than a window of %d", over, width)
			}
		}
		b.size(1280, false)
	}
	noted := s.twice(39)
	for path, what := range map[string]string{"/console/orders/" + s.held("noted").CallBackID: "an order", fmt.Sprintf("/console/deposits/%d", noted): "a deposit"} {
		b.open(path)
		b.fill("#note", "noted about "+what)
		b.click(".note-form button")
		b.shows("Noted.", "noted about "+what, "the approver")
	}
	if _, err := s.admin.DeclineTask(ctx, client.DepositTask(noted), ""); err != nil {
		t.Fatal(err)
	}
	// Many at once, with what was typed kept where a form is refused. Copies are not credited together.
	var held []int64
	for n := range 3 {
		held = append(held, s.twice(40+n))
	}
	choose := func(kind client.TaskKind, verdict string) {
		t.Helper()
		b.open("/console/?kind=" + string(kind))
		get[bool](b, `document.querySelectorAll("input[name=id]").forEach(x => x.checked = true) || true`)
		b.click(`button[value=` + verdict + `]`)
	}
	choose(client.TaskDeposit, "approve")
	b.shows("Possible duplicates are left out: 3", "It can be done to none of them.")
	choose(client.TaskDeposit, "decline")
	b.shows("deposit." + fmt.Sprint(held[0]))
	b.fill("#reason", "all of them looked at")
	b.fill("#confirm", "yes")
	b.click("form.fields button.danger")
	b.shows("Type the word decline to confirm")
	if got := get[string](b, `document.querySelector("#reason").value`); got != "all of them looked at" {
		t.Errorf("the form holds %q", got)
	}
	choose(client.TaskDeposit, "decline")
	b.fill("#confirm", "decline")
	last := s.twice(51) // came since it was chosen
	b.click("form.fields button.danger")
	b.shows("Declined.")
	for seq, want := range map[int64]client.DepositState{held[0]: client.DepositRejected, held[1]: client.DepositRejected, held[2]: client.DepositRejected, last: client.DepositHeld} {
		if d, err := s.admin.Deposit(ctx, seq); err != nil || d.State != want {
			t.Errorf("deposit %d: %+v, %v", seq, d, err)
		}
	}
	first, second := s.misdirected(60), s.misdirected(61)
	choose(client.TaskRefused, "approve")
	b.fill("#confirm", "approve")
	b.click("form.fields button.danger")
	b.shows("Approved.")
	for _, id := range []int64{first, second} {
		if x, err := s.admin.RefusedCallback(ctx, id); err != nil || x.State != client.RefusedTaken {
			t.Errorf("%+v, %v", x, err)
		}
	}
	// Two browsers that look at one order: the second is told what the first did.
	o := s.held("two-browsers")
	other := newTab(t, browser, s.base)
	other.signIn(anotherAdmin)
	for _, tab := range []*tab{b, other} {
		tab.open("/console/orders/" + o.CallBackID)
		tab.press(`details:has(form[action$="/decline"]) > summary`)
	}
	b.click(`form[action$="/decline"] button`)
	b.shows("Declined.")
	other.press(`details:has(form[action$="/approve"]) > summary`)
	other.click(`form[action$="/approve"] button`)
	other.shows("This was not done", "The order is declined")
	// An admin takes an order back.
	taken := s.held("acts-cancel")
	other.open("/console/orders/" + taken.CallBackID)
	other.press(`details:has(form[action$="/cancel"]) > summary`)
	other.fill(`form[action$="/cancel"] input[name=reason]`, "ordered by mistake")
	other.click(`form[action$="/cancel"] button`)
	other.shows("Cancelled. The service is told so when it asks.", "ordered by mistake")
	if got := state(taken.CallBackID); got != client.OrderCancelled {
		t.Errorf("cancelled: %s", got)
	}
	// An admin sends again what the application did not take.
	failed := func(least int) {
		t.Helper()
		await(t, "the entry failed again", func() bool {
			f, err := s.admin.Forwarding(ctx)
			first := slices.IndexFunc(f.Failed, func(f client.Forward) bool { return f.ID == "event_1" })
			return err == nil && first >= 0 && !f.Failed[first].Sending && f.Failed[first].Attempts >= least
		})
	}
	failed(1)
	other.open("/console/forwarding")
	other.shows("event_1")
	other.click(`form[action="/console/forwarding/retry"] button`)
	other.shows("Due now.")
	other.do(chromedp.NavigateBack())
	failed(2)
}

// twice tells of a transfer under two trackingIds and gives the number of the second.
func (s *shop) twice(n int) int64 {
	s.t.Helper()
	again := countersigntest.Deposit(n)
	again.TrackingID += "-again"
	s.tell(countersigntest.Deposit(n))
	s.tell(again)
	list, err := s.admin.SearchDeposits(s.t.Context(), client.DepositSearch{TrackingID: again.TrackingID}, client.PageOptions{})
	if err != nil || len(list.Deposits) != 1 || list.Deposits[0].State != client.DepositHeld {
		s.t.Fatalf("%+v, %v", list, err)
	}
	return list.Deposits[0].Seq
}

// moved tells of a user whose address was replaced and gives the number of the address.
func (s *shop) moved(user string) int64 {
	s.t.Helper()
	s.tell(&countersign.AddressChange{Head: countersign.Head{TrackingID: "moved-" + user, TenantUserID: user}, ChainName: "TRON", Symbol: "USDT",
		ToAddress: "TOld", NewAddress: "TNew"})
	list, err := s.admin.Addresses(s.t.Context(), client.AddressFilter{TenantUserID: user}, client.PageOptions{})
	if err != nil || len(list.Addresses) != 1 || list.Addresses[0].State != client.AddressHeld {
		s.t.Fatalf("%+v, %v", list, err)
	}
	return list.Addresses[0].Seq
}

// misdirected posts a deposit to the URL of withdrawals, and gives the id of what is kept of it.
func (s *shop) misdirected(n int) int64 {
	s.t.Helper()
	s.service.Deliver(s.t.Context(), s.wrong, countersigntest.Deposit(900+n))
	page, err := s.admin.Refused(s.t.Context(), client.RefusedFilter{Reason: "wrong_url"}, client.PageOptions{})
	if err != nil || len(page.Refused) == 0 {
		s.t.Fatalf("%+v, %v", page, err)
	}
	return page.Refused[0].ID
}

func (s *shop) tell(cb countersign.Callback) {
	s.t.Helper()
	if r := s.service.Deliver(s.t.Context(), s.to, cb); r.Response.ErrCode != countersign.CodeAccepted {
		s.t.Fatalf("errCode %d", r.Response.ErrCode)
	}
}
