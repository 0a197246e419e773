package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/client"
)

// TestGatewayLists: a list is a table or lines of JSON, filtered, and says where it was cut off. Before, the start says
// that the policy can hold what this provider may take for refused, unless the settings say that it asks again.
func TestGatewayLists(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	start := func(args ...string) *process {
		return startDaemon(t, append([]string{"gateway", "--data", data, "--listen", "127.0.0.1:0", "--api-listen",
			"127.0.0.1:0", "--service-key", secretFile(t, publicKey(t)), "--api-key", "k", "--provider", "other",
			"--policy", secretFile(t, "default = \"ask\"\n")}, args...)...)
	}
	const warning = "the policy or --verify-url can have this provider told to ask again"
	d := start()
	if !strings.Contains(d.output.String(), warning) {
		t.Errorf("no warning:\n%s", d.output)
	}
	d.stop(t)
	if d = start("--hold-code", "7"); strings.Contains(d.output.String(), warning) {
		t.Errorf("a warning:\n%s", d.output)
	}
	flags := []string{"--api", d.url, "--data", data}
	run := func(args ...string) string {
		t.Helper()
		status, out, errOut := shell(t, "", slices.Concat(args, flags)...)
		if status != exitDone {
			t.Fatalf("%v: status %d\n%s", args, status, errOut)
		}
		return out
	}
	// rows gives the cells of a table, without its titles.
	rows := func(args ...string) [][]string {
		t.Helper()
		var all [][]string
		for line := range strings.Lines(run(append(args, "--no-json")...)) {
			all = append(all, strings.Fields(line))
		}
		if len(all) == 0 || all[0][0] != strings.ToUpper(all[0][0]) {
			t.Fatalf("%v: no titles: %v", args, all)
		}
		return all[1:]
	}

	for _, id := range []string{"order-1", "order-2", "order-3"} {
		mustShell(t, nil, `{"callBackId":"`+id+`","tenantUserId":"60001","address":"TX","chainName":"TRON","symbol":"USDT","amount":"2.50"}`,
			slices.Concat([]string{"orders", "add", "-"}, flags)...)
	}
	run("tasks", "decline", "order.order-2", "--gateway", "reason=too late")
	if got := rows("orders", "list"); len(got) != 3 || got[0][0] != "order-3" {
		t.Errorf("all orders: %v", got)
	}
	if got := rows("orders", "list", "state=declined"); len(got) != 1 || got[0][0] != "order-2" || got[0][2] != "declined" || got[0][8] != "too" {
		t.Errorf("the declined order: %v", got)
	}
	if got := rows("orders", "list", "state=held"); len(got) != 0 {
		t.Errorf("held orders: %v", got)
	}
	var o client.Order
	if err := json.Unmarshal([]byte(run("orders", "list", "state=declined")), &o); err != nil || o.CallBackID != "order-2" || o.Reason != "too late" {
		t.Errorf("the declined order as JSON: %+v, %v", o, err)
	}
	if status, out, errOut := shell(t, "", slices.Concat([]string{"orders", "list", "--limit", "2"}, flags)...); status != exitDone ||
		strings.Count(out, "\n") != 2 || !strings.Contains(errOut, "raise --limit") {
		t.Errorf("two of three: %d %s%s", status, out, errOut)
	}

}

// TestMerchantsEdit: what is given changes, what is cleared goes back to its
// default, and the rest stays. The environment changes nothing.
func TestMerchantsEdit(t *testing.T) {
	flags := theService(t).flags
	t.Setenv("COUNTERSIGN_NAME", "of the environment")
	var m, before client.Merchant
	mustShell(t, nil, "", slices.Concat([]string{"merchants", "add", "edited", "notifyUrl=http://127.0.0.1:1/n", "withdrawUrl=http://127.0.0.1:1/w",
		"key.bits=1024", "name=Shop", "ratePerSecond=5", "concurrency=3"}, flags)...)
	mustShell(t, &before, "", slices.Concat([]string{"merchants", "show", "edited"}, flags)...)
	mustShell(t, &m, "", slices.Concat([]string{"merchants", "edit", "edited", "notifyUrl=http://127.0.0.1:2/n", "concurrency=7",
		"confirmWithin=20m", "releaseWithin=24h", "ratePerSecond=null"}, flags)...)
	want := before
	want.NotifyURL, want.Concurrency, want.ConfirmWithin, want.RatePerSecond = "http://127.0.0.1:2/n", 7, m.ConfirmWithin, 0
	want.ReleaseWithin = m.ReleaseWithin
	want.Version, want.Updated = m.Version, m.Updated
	want.ServiceSigningKey = "" // show alone has it
	got, _ := json.Marshal(m)
	wanted, _ := json.Marshal(want)
	if string(got) != string(wanted) || m.ConfirmWithin.String() != "20m0s" || m.ReleaseWithin.String() != "24h0m0s" || before.ReleaseWithin.String() != "72h0m0s" || m.Name != "Shop" {
		t.Errorf("got  %s\nwant %s", got, wanted)
	}
	for _, bad := range [][]string{{"withdrawUrl=" + m.NotifyURL}, {"concurrency=-1"}, {"concurrency=many"}, {"concurency=7"}, {"collect=all"}} {
		if status, _, _ := shell(t, "", slices.Concat([]string{"merchants", "edit", "edited"}, bad, flags)...); status == exitDone {
			t.Errorf("%v is taken", bad)
		}
	}
	status, out, errOut := shell(t, "", slices.Concat([]string{"merchants", "list", "--no-json"}, flags)...)
	if status != exitDone || !strings.Contains(out, "edited  Shop  active  -              -    service  http://127.0.0.1:2/n  -\n") {
		t.Errorf("%d %s%s", status, out, errOut)
	}
}
