package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/daemon"
)

// TestRestoredGateway goes the way of docs/operator/backup.md: the exit status of reconcile says whether a person must
// decide something.
func TestRestoredGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newGatewayDaemon(t)
	flags := func() []string { return []string{"--api", g.d.url, "--data", g.data} }
	for _, id := range []string{"order-1", "order-2", "order-3"} {
		mustShell(t, nil, `{"callBackId":"`+id+`","tenantUserId":"60001","address":"TX","chainName":"TRON","symbol":"USDT","amount":"2.50"}`, slices.Concat([]string{"orders", "add", "-"}, flags())...)
	}
	token := func(name string) string {
		var made struct{ ID string }
		mustShell(t, &made, "", slices.Concat([]string{"token", "new", name, "role=viewer", "--gateway", "--out", filepath.Join(dir, name)}, flags())...)
		return made.ID
	}
	old := token("old")
	deliver := func(n int) {
		t.Helper()
		if result := g.service.Deliver(t.Context(), g.to, countersigntest.Deposit(n)); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	deliver(1)
	backup := filepath.Join(dir, "backup")
	mustShell(t, nil, "", "backup", "--gateway", "--data", g.data, "--to", backup)
	deliver(2)
	token("fresh")
	mustShell(t, nil, "", slices.Concat([]string{"api", "revokeToken", old, "--gateway"}, flags())...)
	g.d.stop(t)

	var r daemon.Restored
	steps := tellingShell(t, &r, "", "restore", "--gateway", "--data", g.data, "--from", backup, "--replace")
	if !strings.Contains(steps, "3 orders or withdrawals had not ended") || !strings.Contains(steps, "docs/operator/backup.md, Reconcile") || r.Newest == 0 {
		t.Errorf("restored %+v\n%s", r, steps)
	}
	booked := filepath.Join(dir, "booked.ndjson")
	reconcile := func(want int, finding, lines string) {
		t.Helper()
		if err := os.WriteFile(booked, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, settle := range [][]string{nil, {"--settle"}} {
			status, out, errOut := shell(t, "", append([]string{"reconcile", "--gateway", "--data", g.data, "--booked", booked}, settle...)...)
			if status != want || finding == "" && out != "" || !strings.Contains(out, finding) {
				t.Errorf("%v: status %d, want %d and %q\n%s%s", settle, status, want, finding, out, errOut)
			}
		}
	}
	said := `{"callBackId":"order-1","state":"open"}` + "\n" + `{"callBackId":"order-2","state":"open"}` + "\n" + `{"trackingId":"deposit-1"}` + "\n"
	reconcile(exitUsage, "", `{"callBackId":"order-1","state":"nonsense"}`)
	reconcile(exitUsage, "", "no line")
	reconcile(exitFailed, `"finding":"not_said","callBackId":"order-3"`, said)
	reconcile(exitFailed, `"finding":"not_said","callBackId":"order-3"`, said) // a later one is as quiet or loud
	g.start()
	var o struct {
		Restored bool
		State    client.OrderState
	}
	if mustShell(t, &o, "", slices.Concat([]string{"api", "order", "order-3"}, flags())...); !o.Restored {
		t.Errorf("%+v", o)
	}
	mustShell(t, nil, "", slices.Concat([]string{"tasks", "approve", "restored.order-3", "--gateway", "reason=nothing became of it"}, flags())...)
	g.d.stop(t)
	reconcile(exitDone, "", said)

	// The provider sends again what came since, and the last command of its step finds it: deposit 2
	// is not lost, and deposit 1 is there once.
	g.start()
	deliver(1)
	deliver(2)
	var found client.DepositsPage
	mustShell(t, &found, "", "api", "searchDeposits", "since="+r.Newest.String(), "--gateway", "--data", g.data)
	if list := found.Deposits; len(list) != 2 || list[0].TrackingID != "deposit-2" || list[0].State != client.DepositTaken || list[1].TrackingID != "deposit-1" {
		t.Errorf("found %+v", list)
	}
}
