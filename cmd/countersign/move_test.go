package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// TestMoveService: a service goes on in PostgreSQL where it was in SQLite: the merchant is told of
// further deposits, a repeated one is known, and a permit is the same to its holder and no other's.
func TestMoveService(t *testing.T) {
	t.Parallel()
	data, to := filepath.Join(t.TempDir(), "data"), dbtest.Postgres(t)
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--allow-private", "--allow-http", "--data", data}
	d := startDaemon(t, serve...)
	confirmOne(t, d, data)
	var before client.Permit
	mustShell(t, &before, "", "withdrawals", "release", "shop/"+countersigntest.Withdrawal(1).CallBackID, "claim=wallet-7", "--api", d.url, "--data", data)
	if status, _, errOut := shell(t, "", "migrate", "--move", "--data", data, "--db", to); status != exitFailed || !strings.Contains(errOut, "another process") {
		t.Errorf("beside its daemon: status %d %s", status, errOut)
	}
	d.kill()
	var m daemon.MovedDatabase
	move := []string{"migrate", "--move", "--data", data, "--db", to}
	mustShell(t, &m, "", move...)
	if m.Tables < 30 || m.Rows < 20 || len(m.Digest) != 64 {
		t.Errorf("moved %+v", m)
	}
	if status, _, errOut := shell(t, "", move...); status != exitFailed || !strings.Contains(errOut, "was moved from this directory") {
		t.Errorf("once more: status %d %s", status, errOut)
	}
	if status, _, errOut := shell(t, "", serve...); status != exitFailed || !strings.Contains(errOut, daemon.DatabaseFile) {
		t.Errorf("a start with the file that was moved: status %d %s", status, errOut)
	}
	d = startDaemon(t, append(serve, "--db", to)...)
	api := []string{"--api", d.url, "--data", data}
	var after client.Permit
	mustShell(t, &after, "", append([]string{"withdrawals", "release", "shop/" + countersigntest.Withdrawal(1).CallBackID, "claim=wallet-7"}, api...)...)
	if after.Permit != before.Permit || !after.Duplicate {
		t.Errorf("the permit was %+v and is %+v", before, after)
	}
	if status, _, errOut := shell(t, "", append([]string{"withdrawals", "release", "shop/" + countersigntest.Withdrawal(1).CallBackID, "claim=wallet-8"}, api...)...); status != exitFailed || !strings.Contains(errOut, "409") {
		t.Errorf("another claim: status %d %s", status, errOut)
	}
	for id, known := range map[string]bool{"d-1": true, "d-2": false} {
		var added client.List[client.Accepted]
		mustShell(t, &added, `{"merchant":"shop","trackingId":"`+id+`","tenantUserId":"65515","txId":"0x1","chainName":"TRON","symbol":"USDT","amount":"5","fromAddress":"A","toAddress":"B","riskLevelFrom":0,"riskLevelTo":0,"txIndex":0}`,
			append([]string{"api", "addDeposits", "-d", "@-"}, api...)...)
		if len(added.Items) != 1 || added.Items[0].Duplicate != known {
			t.Errorf("deposit %s: %+v", id, added)
		}
	}
	await(t, d, func() bool {
		var is struct{ State string }
		mustShell(t, &is, "", append([]string{"callbacks", "list", "trackingId=d-2"}, api...)...)
		return is.State == "accepted"
	})
	status, key, errOut := shell(t, "", append([]string{"audit", "key"}, api...)...)
	if status == exitDone {
		status, _, errOut = shell(t, "", append([]string{"audit", "verify", "--key", key}, api...)...)
	}
	if status != exitDone {
		t.Errorf("the log: status %d %s", status, errOut)
	}
	d.stop(t)
	// With the file in its place again: what was done in PostgreSQL since is not overwritten.
	file := filepath.Join(data, daemon.DatabaseFile)
	if err := os.Rename(file+".moved", file); err != nil {
		t.Fatal(err)
	}
	if status, _, errOut := shell(t, "", move...); status != exitFailed || !strings.Contains(errOut, "the database already has other rows") {
		t.Errorf("over another database: status %d %s", status, errOut)
	}
}
