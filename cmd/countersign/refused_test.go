package main

import (
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestRefusedFromTheShell: a deposit that the gateway refused survives a kill, and is booked once,
// by retry, when the setting is changed; the provider's late delivery is a repetition.
func TestRefusedFromTheShell(t *testing.T) {
	t.Parallel()
	g := newGatewayDaemon(t)
	unbound, err := countersigntest.MakeService(countersigntest.ServiceConfig{Unbound: true})
	if err != nil {
		t.Fatal(err)
	}
	deposit := countersigntest.Deposit(1)
	deliver := func() countersign.ErrCode { // with a requestUUID of its own each time
		t.Helper()
		plaintext, _, err := unbound.Plaintext(deposit)
		if err != nil {
			t.Fatal(err)
		}
		body, err := g.service.Seal(plaintext)
		if err != nil {
			t.Fatal(err)
		}
		r, err := countersign.ParseResponse(g.service.Post(t.Context(), g.to, g.d.urls["callbacks"]+merchant.DefaultNotifyPath, body).Raw)
		if err != nil {
			t.Fatal(err)
		}
		return r.ErrCode
	}
	if code := deliver(); code != countersign.CodeMalformed {
		t.Fatalf("errCode %d", code)
	}
	g.d.kill() // what was answered is kept
	g.start()
	run := func(words ...string) (status int, out, errOut string) {
		return shell(t, "", append(words, "--api", g.d.url, "--data", g.data)...)
	}
	if _, out, errOut := run("api", "refused"); !strings.Contains(out, deposit.TrackingID) || !strings.Contains(out, "requestUUID is not bound") {
		t.Errorf("%s%s", out, errOut)
	}
	if _, out, errOut := run("api", "refusedCallback", "1"); !strings.Contains(out, "--provider other") {
		t.Errorf("%s%s", out, errOut)
	}
	if status, out, errOut := run("tasks", "approve", "refused.1", "--gateway"); status == exitDone || !strings.Contains(errOut, "refused again: not_bound") {
		t.Errorf("%d %s%s", status, out, errOut)
	}
	g.d.kill()
	g.args = append(g.args, "--provider", "other")
	g.start()
	for range 2 {
		if status, out, errOut := run("tasks", "approve", "refused.1", "--gateway"); status != exitDone || !strings.Contains(out, `"state": "done"`) {
			t.Errorf("%d %s%s", status, out, errOut)
		}
	}
	if code := deliver(); code != countersign.CodeAccepted {
		t.Errorf("errCode %d", code)
	}
	var list client.Deposits
	if err := g.call(t.Context(), "GET", "/v1/deposits", nil, &list); err != nil || len(list.Deposits) != 1 || list.Deposits[0].TrackingID != deposit.TrackingID {
		t.Errorf("%+v, %v", list, err)
	}
	if status, _, errOut := run("tasks", "decline", "refused.1", "--gateway"); status == exitDone || !strings.Contains(errOut, "it was taken") {
		t.Errorf("%d %s", status, errOut)
	}
	// This provider may not come again for what the check holds.
	g.d.kill()
	g.args = append(g.args, "--verify-url", "http://127.0.0.1:1/")
	g.start()
	if out := g.d.output.String(); !strings.Contains(out, "the check is asked again here") {
		t.Errorf("%s", out)
	}
}
