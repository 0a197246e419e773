package console_test

import (
	"strings"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// TestChanges: a change that an operator proposes by clicking is shown with before and after,
// its proposer cannot approve it, and of two approvers who click at once one approves.
func TestChanges(t *testing.T) {
	dbtest.Whole(t, "a browser walks through every change")
	browser := chromium(t)
	t.Parallel()
	base, first := node(t, nil)
	admin := serviceAPI(t, base, first)
	ctx := t.Context()
	if _, err := admin.CreateMerchant(ctx, client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"},
	}); err != nil {
		t.Fatal(err)
	}
	tokens := map[string]client.Secret{}
	for _, k := range []client.NewToken{{Name: "Olga", Role: client.RoleOperator}, {Name: "viewer", Role: client.RoleViewer}, {Name: "Ann", Role: client.RoleApprover}} {
		made, err := admin.CreateToken(ctx, k)
		if err != nil || made.Change != nil {
			t.Fatalf("%+v, %v", made, err)
		}
		tokens[k.Name] = made.Secret
	}
	// From here on changes wait for Ann: another approver, too.
	made, err := admin.CreateToken(ctx, client.NewToken{Name: "Bob", Role: client.RoleApprover})
	if err != nil || made.Change == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	tokens["Bob"] = made.Secret
	ann := newTab(t, browser, base)
	ann.signIn(tokens["Ann"])
	ann.open("/console/")
	ann.shows("new token Bob, role approver", "change")
	ann.click("tbody a")
	ann.shows("approver", "Bob")
	ann.press(`details:has(form[action$="/approve"]) > summary`)
	ann.click("form[action$='/approve'] button")
	ann.shows("Approved.")
	bob := newTab(t, browser, base)
	bob.signIn(tokens["Bob"])

	olga := newTab(t, browser, base)
	olga.signIn(tokens["Olga"])
	propose := func(url string) string {
		t.Helper()
		olga.open("/console/merchants/shop/change")
		olga.fill("#notifyUrl", url)
		olga.click("button.main")
		olga.shows("waits for an approver")
		list, err := admin.Tasks(ctx, client.TaskFilter{Kind: client.TaskChange}, client.PageOptions{})
		if err != nil || len(list.Tasks) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list.Tasks[0].About
	}
	notify := func() string {
		m, err := admin.Merchant(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		return m.NotifyURL
	}
	id := propose("http://127.0.0.1:1/proposed?<b>")
	page := "/console/tasks/change." + id
	olga.open(page)
	olga.shows("http://127.0.0.1:1/n", "http://127.0.0.1:1/proposed", "You cannot approve it")
	if get[bool](olga, `!!document.querySelector("form[action$='/approve']")`) {
		t.Error("the proposer has a button that approves")
	}
	if notify() != "http://127.0.0.1:1/n" {
		t.Fatal("it was changed before it was approved")
	}
	for _, b := range []*tab{ann, bob} {
		b.open(page)
		b.press(`details:has(form[action$="/approve"]) > summary`)
		b.accessible(page)
	}
	ann.picture("change-wide")
	ann.size(390, true)
	ann.accessible(page + " narrow and dark")
	ann.picture("change-narrow-dark")
	var both sync.WaitGroup
	for _, b := range []*tab{ann, bob} {
		both.Go(func() { b.click("form[action$='/approve'] button") })
	}
	both.Wait()
	approved := 0
	for _, b := range []*tab{ann, bob} {
		if text := b.page(); strings.Contains(text, "Approved.") {
			approved++
		} else if !strings.Contains(text, "This was not done") {
			t.Errorf("the other approver is told nothing\n%s", text)
		}
	}
	if approved != 1 || !strings.Contains(notify(), "proposed") {
		t.Errorf("%d approved it, and the URL is %s", approved, notify())
	}

	id = propose("http://127.0.0.1:1/other")
	bob.open("/console/")
	bob.click("tbody a")
	bob.press(`details:has(form[action$="/decline"]) > summary`)
	bob.fill("#decline-reason", "not <i>ours</i>")
	bob.click("details[open] button.danger")
	bob.shows("Declined.", "not <i>ours</i>")
	if strings.Contains(notify(), "other") {
		t.Error("a rejected change was applied")
	}
	viewer := newTab(t, browser, base)
	viewer.signIn(tokens["viewer"])
	viewer.open("/console/?state=done")
	viewer.shows("settings of shop: notifyUrl", "done")
	viewer.open("/console/?state=declined")
	viewer.shows("settings of shop: notifyUrl", "declined")
	viewer.picture("changes-wide")
	viewer.open("/console/tasks/change." + id)
	if n := get[int](viewer, `document.querySelectorAll("main form").length`); n != 0 {
		t.Errorf("a viewer has %d forms", n)
	}
}
