package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
)

// TestIdentifiers: commands take what alarms, logs and the other end name, and where it names
// several things they are listed and nothing is done. A number stays a number for what decides,
// and an order is approved by its callBackId alone, since others choose the rest.
func TestIdentifiers(t *testing.T) {
	t.Parallel()
	g := newGatewayDaemon(t)
	run := func(words ...string) (status int, out, errOut string) {
		return shell(t, "", slices.Concat(words, []string{"--api", g.d.url, "--data", g.data})...)
	}
	tell := func(cb countersign.Callback) {
		t.Helper()
		if r := g.service.Deliver(t.Context(), g.to, cb); r.Response.ErrCode != countersign.CodeAccepted {
			t.Fatalf("errCode %d", r.Response.ErrCode)
		}
	}
	deposit := func(trackingID string, n int) *countersign.Deposit {
		d := countersigntest.Deposit(n)
		d.TrackingID = trackingID
		return d
	}
	tell(deposit("dep-r-0", 1)) // 1
	tell(deposit("dep-r-1", 1)) // 2, of the same transfer: held
	tell(deposit("2", 2))       // 3
	tell(deposit("dep-r-3", 2)) // 4, held
	tell(&countersign.AddressChange{Head: countersign.Head{TrackingID: "moved-1", TenantUserID: "u"}, ChainName: "TRON", Symbol: "USDT", ToAddress: "TOld", NewAddress: "TNew"})
	txID := countersigntest.Deposit(1).TxID
	for _, c := range []struct {
		words []string
		want  []string // in the answer
		fails []string // in the error
	}{
		{[]string{"deposits", "show", "dep-r-0"}, []string{`"seq": 1,`}, nil},
		{[]string{"deposits", "show", "2"}, []string{`"trackingId": "dep-r-1"`}, nil},
		{[]string{"deposits", "show", "3"}, []string{`"trackingId": "2"`}, nil},
		{[]string{"deposits", "show", txID}, nil, []string{"there is no such deposit"}},
		{[]string{"deposits", "show", "none"}, nil, []string{"there is no such deposit"}},
		{[]string{"tasks", "approve", "deposit." + txID, "--gateway"}, nil, []string{"there is no such task"}},
		{[]string{"tasks", "approve", "deposit.4", "--gateway"}, []string{`"value": "dep-r-3"`, `"state": "done"`}, nil},
		{[]string{"tasks", "decline", "deposit.dep-r-1", "--gateway"}, []string{`"id": "deposit.2",`, `"state": "declined"`}, nil},
		{[]string{"api", "address", "u"}, []string{`"seq": 1,`}, nil},
		{[]string{"tasks", "approve", "address.u", "--gateway"}, []string{`"state": "done"`}, nil},
		{[]string{"api", "address", "none"}, nil, []string{"there is no such address\n"}},
		{[]string{"api", "refusedCallback", "none"}, nil, []string{"there is no such refused callback"}},
		{[]string{"tasks", "approve", "order.question-1", "--gateway"}, nil, []string{"there is no such task"}},
	} {
		status, out, errOut := run(c.words...)
		if (status == exitDone) != (c.fails == nil) {
			t.Errorf("%v: status %d: %s%s", c.words, status, out, errOut)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %q is not in\n%s", c.words, want, out)
			}
		}
		for _, want := range c.fails {
			if !strings.Contains(errOut, want) {
				t.Errorf("%v: %q is not in\n%s", c.words, want, errOut)
			}
		}
	}

	// An application's token does not search: it reads by number as before.
	token := filepath.Join(t.TempDir(), "app.token")
	if status, _, errOut := run("token", "new", "app", "--gateway", "role=app", "--out", token); status != exitDone {
		t.Fatal(errOut)
	}
	secret, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	app := func(words ...string) string {
		_, out, errOut := shell(t, "", slices.Concat(words, []string{"--api", g.d.url, "--token", strings.TrimSpace(string(secret))})...)
		return out + errOut
	}
	if got := app("deposits", "show", "1"); !strings.Contains(got, `"trackingId": "dep-r-0"`) {
		t.Error(got)
	}
	if got := app("deposits", "show", "dep-r-0"); !strings.Contains(got, "there is no such deposit") {
		t.Error(got)
	}
}

// TestServiceIdentifiers is the same at the service.
func TestServiceIdentifiers(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	d := startDaemon(t, "serve", "--listen", "127.0.0.1:0", "--data", data, "--allow-private", "--allow-http")
	flags := []string{"--api", d.url, "--data", data}
	run := func(words ...string) (status int, out, errOut string) {
		return shell(t, "", slices.Concat(words, flags)...)
	}
	for _, m := range []string{"one", "two"} {
		if status, _, errOut := run("merchants", "add", m, "notifyUrl=http://127.0.0.1:1/n", "withdrawUrl=http://127.0.0.1:1/w"); status != exitDone {
			t.Fatal(errOut)
		}
	}
	ids := map[string]string{}
	for _, w := range []string{"one/w-1", "one/w-2", "two/w-2"} {
		merchant, callBackID, _ := strings.Cut(w, "/")
		var made client.AcceptedWithdrawals
		mustShell(t, &made, `{"merchant":"`+merchant+`","callBackId":"`+callBackID+`","tenantUserId":"u"}`, slices.Concat([]string{"withdrawals", "add", "-"}, flags)...)
		ids[w] = made.Withdrawals[0].ID
	}
	for _, c := range []struct {
		words []string
		want  string
		fails bool
	}{
		{[]string{"withdrawals", "show", "w-1"}, ids["one/w-1"], false},
		{[]string{"api", "callback", "w-1"}, `"type": 2,`, false},
		{[]string{"callbacks", "resend", "w-2"}, "w-2 names 2 of them", true},
		{[]string{"withdrawals", "show", "w-2"}, "try: " + ids["two/w-2"] + " (awaiting, ", true},
		{[]string{"api", "callback", "two/w-2"}, `"id": "` + "two.", false},
		{[]string{"api", "cancelWithdrawal", "w-2"}, "w-2 names 2 of them: give the id of one\n", true},
		{[]string{"api", "cancelWithdrawal", "two/w-2"}, `"state": "cancelled"`, false},
		{[]string{"api", "cancelWithdrawal", "w-1"}, `"state": "cancelled"`, false},
		{[]string{"withdrawals", "show", "none"}, "there is no such withdrawal", true},
		{[]string{"api", "callback", ids["one/w-2"]}, `"id": "` + ids["one/w-2"], false},
		{[]string{"api", "callback", "none"}, "there is no such callback", true},
		{[]string{"audit", "about", ids["one/w-1"]}, "withdrawal.created", false},
		{[]string{"tasks", "note", "release." + ids["one/w-2"], "text=looked"}, `"note": "looked"`, false},
		{[]string{"tasks", "show", "release.one/w-2"}, "looked", false},
		{[]string{"audit", "about", "one/w-1"}, "withdrawal.created", false},
		{[]string{"audit", "about", "one/none"}, "there is no such withdrawal", true},
		{[]string{"tasks", "note", "release.one/none", "text=looked"}, "there is no such task", true},
		{[]string{"merchants", "edit", "one", "approveAbove=USDT 100, * 0", "finalCodes=2000-2999, 5001"}, `"above": "100"`, false},
		{[]string{"merchants", "show", "one"}, `"from": 5001,`, false},
		{[]string{"merchants", "edit", "one", "approveAbove=USDT"}, `approveAbove`, true},
	} {
		status, out, errOut := run(c.words...)
		if (status == exitDone) == c.fails || !strings.Contains(out+errOut, c.want) {
			t.Errorf("%v: status %d: %s%s", c.words, status, out, errOut)
		}
	}
}

// TestSettingsOfCommands: a command that is given the settings file of a daemon calls that
// daemon: it takes the data directory from the daemon's table, and there the address and the token.
func TestSettingsOfCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "settings.toml")
	key := filepath.Join(dir, "key")
	for path, text := range map[string]string{key: countersigntest.NewService(t).MerchantKey().PublicBase64(), config: "[serve]\nlisten = \"127.0.0.1:0\"\ndata = \"" + dir + "/service\"\n" +
		"[gateway]\nlisten = \"127.0.0.1:0\"\napi-listen = \"127.0.0.1:0\"\ndata = \"" + dir + "/merchant\"\nservice-key = \"" + key + "\"\napi-key = \"k\"\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	startDaemon(t, "serve", "--config", config)
	startDaemon(t, "gateway", "--config", config)
	for want, words := range map[string][]string{
		"there is no such merchant": {"merchants", "show", "none"},
		"there is no such deposit":  {"deposits", "show", "none"},
		"there is no such order":    {"api", "order", "none", "--gateway"},
	} {
		if _, _, errOut := shell(t, "", append(words, "--config", config)...); !strings.Contains(errOut, want) {
			t.Errorf("%v: %s", words, errOut)
		}
	}
}
