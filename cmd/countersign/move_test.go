package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// moveData moves the database of a stopped end, and checks that nobody goes on with the file.
func moveData(t *testing.T, data, to string, flags ...string) {
	t.Helper()
	var m daemon.MovedDatabase
	args := append([]string{"migrate", "--move", "--data", data, "--db", to}, flags...)
	mustShell(t, &m, "", args...)
	if m.Tables < 30 || m.Rows < 20 || len(m.Digest) != 64 {
		t.Errorf("moved %+v", m)
	}
	if _, err := os.Stat(filepath.Join(data, daemon.DatabaseFile)); !os.IsNotExist(err) {
		t.Errorf("the file of SQLite is in its place still: %v", err)
	}
	if status, _, errOut := shell(t, "", args...); status != exitFailed || !strings.Contains(errOut, "was moved from this directory") {
		t.Errorf("once more: status %d %s", status, errOut)
	}
}

// moveAgain puts the file back: what was done in PostgreSQL since is not overwritten.
func moveAgain(t *testing.T, data, to string, flags ...string) {
	t.Helper()
	file := filepath.Join(data, daemon.DatabaseFile)
	if err := os.Rename(file+".moved", file); err != nil {
		t.Fatal(err)
	}
	status, _, errOut := shell(t, "", append([]string{"migrate", "--move", "--data", data, "--db", to}, flags...)...)
	if status != exitFailed || !strings.Contains(errOut, "the database already has other rows") {
		t.Errorf("over another database: status %d %s", status, errOut)
	}
}

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
	moveData(t, data, to)
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
		var added client.AcceptedDeposits
		mustShell(t, &added, `{"merchant":"shop","trackingId":"`+id+`","tenantUserId":"65515","txId":"0x1","chainName":"TRON","symbol":"USDT","amount":"5","fromAddress":"A","toAddress":"B","riskLevelFrom":0,"riskLevelTo":0,"txIndex":0}`,
			append([]string{"api", "addDeposits", "-d", "@-"}, api...)...)
		if len(added.Callbacks) != 1 || added.Callbacks[0].Duplicate != known {
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
	moveAgain(t, data, to)
}

// TestMoveGateway: a gateway goes on in PostgreSQL where it was in SQLite: its feed continues, a
// deposit that was taken is credited once, and refused callbacks get further numbers.
func TestMoveGateway(t *testing.T) {
	t.Parallel()
	to := dbtest.Postgres(t)
	g := newGatewayDaemon(t)
	deliver := func(n int) {
		t.Helper()
		if r := g.service.Deliver(t.Context(), g.to, countersigntest.Deposit(n)); r.Response.ErrCode != countersign.CodeAccepted {
			t.Fatalf("deposit %d: errCode %d", n, r.Response.ErrCode)
		}
	}
	refuse := func(body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.d.urls["callbacks"]+merchant.DefaultNotifyPath, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-KEY", g.service.CallbackAPIKey().Reveal())
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	seqs := func() (list []int64) {
		var page client.Deposits
		if err := g.call(t.Context(), http.MethodGet, "/v1/deposits", nil, &page); err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Deposits {
			list = append(list, d.Seq)
		}
		return list
	}
	deliver(1)
	deliver(2)
	refuse("one")
	g.d.stop(t)
	moveData(t, g.data, to, "--gateway")
	g.args = append(g.args, "--db", to)
	g.start()
	deliver(2)
	deliver(3)
	refuse("two")
	if got := seqs(); len(got) != 3 || got[2] != 3 {
		t.Errorf("deposits %v", got)
	}
	var refused client.RefusedPage
	if err := g.call(t.Context(), http.MethodGet, "/v1/refused", nil, &refused); err != nil || len(refused.Refused) != 2 {
		t.Errorf("refused: %+v, %v", refused, err)
	}
	g.d.stop(t)
	moveAgain(t, g.data, to, "--gateway")
}
