package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
)

// TestGatewayActs is one run through the gateway's console by clicking: one task, many at once, and two browsers.
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
	o := s.held("acts-approve")
	act("/console/orders/"+o.CallBackID, "approve", "Approved.")
	if got := state(o.CallBackID); got != client.OrderApproved {
		t.Errorf("approved: %s", got)
	}
	id := s.misdirected(1)
	b.open("/console/?kind=refused")
	b.shows("wrong url")
	act(fmt.Sprintf("/console/refused/%d", id), "approve", "Approved.")
	b.shows("belongs to the other URL", "Explained", "callback type 1")
	if x, err := s.admin.RefusedCallback(ctx, id); err != nil || x.State != client.RefusedTaken {
		t.Errorf("%+v, %v", x, err)
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
	// Two browsers that look at one order: the second is told what the first did.
	o = s.held("two-browsers")
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
