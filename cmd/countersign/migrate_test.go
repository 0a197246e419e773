package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// asRole returns the URL of a database for another role.
func asRole(t *testing.T, dbURL, role string) string {
	t.Helper()
	u, err := url.Parse(dbURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("user", role)
	u.RawQuery = q.Encode()
	return u.String()
}

// confirmOne has a service send a deposit, have a withdrawal confirmed and release it.
func confirmOne(t *testing.T, d *process, data string) {
	t.Helper()
	var m atomic.Pointer[countersigntest.Merchant]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.Load().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	api, own := []string{"--api", d.url, "--data", data}, envelope.GenerateSigningKey()
	call := func(v any, stdin string, args ...string) {
		t.Helper()
		mustShell(t, v, stdin, append(args, api...)...)
	}
	var made client.CreatedMerchant
	call(&made, "", "merchants", "add", "shop", "finalCodes=2000-2999", "key.bits=1024", "answerKey="+own.PublicBase64(), "notifyUrl="+server.URL+merchant.DefaultNotifyPath, "withdrawUrl="+server.URL+merchant.DefaultWithdrawPath)
	key, err := envelope.ParseKey([]byte(made.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	answers, err := countersigntest.MakeMerchant(countersigntest.MerchantConfig{Key: key, APIKey: countersign.APIKey(made.APIKey), Orders: countersigntest.SampleOrders, Sign: own})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(answers.Close)
	m.Store(answers)
	w := countersigntest.Withdrawal(1)
	call(nil, fmt.Sprintf(`{"merchant":"shop","callBackId":%q,"tenantUserId":%q}`, w.CallBackID, w.TenantUserID), "withdrawals", "add", "-")
	call(nil, `{"merchant":"shop","trackingId":"d-1","tenantUserId":"65515","txId":"0x1","chainName":"TRON","symbol":"USDT","amount":"5","fromAddress":"A","toAddress":"B","riskLevelFrom":0,"riskLevelTo":0,"txIndex":0}`, "api", "addDeposits", "-d", "@-")
	await(t, d, func() bool {
		var is struct{ State string }
		call(&is, "", "withdrawals", "show", "shop/"+w.CallBackID)
		return is.State == "confirmed"
	})
	await(t, d, func() bool {
		var is struct{ State string }
		call(&is, "", "callbacks", "list", "trackingId=d-1")
		return is.State == "accepted"
	})
	call(nil, "", "withdrawals", "release", "shop/"+w.CallBackID, "claim=wallet-7")
}

// TestRoles: one role makes the tables, and both daemons run with another that only reads
// and writes rows, and of the journal only adds them. The grants are those that docs/operator/README.md shows.
func TestRoles(t *testing.T) {
	t.Parallel()
	key, err := envelope.GenerateKey(1024)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "service.b64")
	if err := os.WriteFile(keyFile, []byte(key.PublicBase64()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, end := range []struct {
		name   string
		flags  []string // of migrate
		daemon []string
	}{
		{"service", nil, []string{"serve", "--listen", "127.0.0.1:0", "--allow-private", "--allow-http"}},
		{"gateway", []string{"--gateway"}, []string{"gateway", "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--service-key", keyFile, "--api-key", "shop-key-0123456789"}},
	} {
		t.Run(end.name, func(t *testing.T) {
			super := dbtest.Postgres(t)
			owner, rows := "owner_of_"+end.name, end.name+`"rows`
			for _, text := range []string{`CREATE ROLE "owner_of_` + end.name + `" LOGIN`, `CREATE ROLE "` + end.name + `""rows" LOGIN`,
				`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE, USAGE ON SCHEMA public TO "owner_of_` + end.name + `"`} {
				dbtest.Exec(t, super, text)
			}
			ownerURL, rowsURL := asRole(t, super, owner), asRole(t, super, rows)
			data := filepath.Join(t.TempDir(), "data")
			start := append(append([]string{}, end.daemon...), "--data", data, "--db", rowsURL)
			refused := func(want string) {
				t.Helper()
				status, _, errOut := shell(t, "", start...)
				if status != exitFailed || !strings.Contains(errOut, want) || !strings.Contains(errOut, "countersign migrate") {
					t.Errorf("status %d, want %q: %s", status, want, errOut)
				}
				if _, err := os.Stat(filepath.Join(data, tokenFile)); err == nil {
					t.Error("it has left a token behind")
				}
			}
			refused("its schema has number 0")
			var m daemon.Migrated
			at := append([]string{"migrate", "--db", ownerURL, "--data", data}, end.flags...)
			mustShell(t, &m, "", at...)
			if m.From != 0 || m.To < 1 || m.Database != "postgres" {
				t.Errorf("%+v", m)
			}
			page, err := os.ReadFile("../../docs/operator/README.md")
			if err != nil {
				t.Fatal(err)
			}
			_, grants, _ := strings.Cut(string(page), "psql postgres://owner@HOST/service <<'END'\n")
			grants, _, _ = strings.Cut(grants, "END\n")
			for _, table := range append([]string{journal.Head}, journal.AppendOnly...) {
				if !regexp.MustCompile(`REVOKE .*\bpublic\.` + table + `\b.* FROM countersign;`).MatchString(grants) {
					t.Errorf("the page does not protect %s", table)
				}
			}
			grants = strings.ReplaceAll(grants, " countersign;", ` "`+strings.ReplaceAll(rows, `"`, `""`)+`";`)
			dbtest.Exec(t, ownerURL, grants)
			d := startDaemon(t, start...)
			api := append([]string{"--api", d.url, "--data", data}, end.flags...)
			if end.name == "service" {
				confirmOne(t, d, data)
				mustShell(t, nil, "", "freeze", "a try", "--api", d.url, "--data", data) // locks a table
			}
			mustShell(t, nil, "", append([]string{"token", "new", "another", "role=viewer"}, api...)...) // is recorded
			if status, out, errOut := shell(t, "", append([]string{"audit", "checkpoint"}, api...)...); status != exitDone || !strings.Contains(out, "— countersign-") {
				t.Errorf("a checkpoint: status %d %s%s", status, out, errOut)
			}
			status, key, errOut := shell(t, "", append([]string{"audit", "key"}, api...)...)
			if status == exitDone {
				status, _, errOut = shell(t, "", append([]string{"audit", "verify", "--key", key}, api...)...)
			}
			if status != exitDone {
				t.Errorf("the log: status %d %s", status, errOut)
			}
			rekey := func(db string) []string {
				return append([]string{"--data", data, "--db", db}, end.flags...)
			}
			if out, err := rekeyProcess(t, rekey(ownerURL)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "stop every daemon") {
				t.Errorf("rekey beside a daemon: %v\n%s", err, out)
			}
			if status := d.stop(t); status != 0 {
				t.Errorf("status %d: %s", status, d.failures())
			}
			if out, err := rekeyProcess(t, rekey(rowsURL)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "needs the role that owns the tables") {
				t.Errorf("rekey with rows alone: %v\n%s", err, out)
			}
			if r := rekeyed(t, rekey(ownerURL)...); r.Values < 2 || r.KeyFile == "" {
				t.Errorf("rekey: %+v", r)
			}
			d = startDaemon(t, start...)
			mustShell(t, nil, "", append([]string{"api", "tokens", "--api", d.url, "--data", data}, end.flags...)...)
			d.stop(t)
			forbidden := []string{`INSERT INTO schema_version VALUES (99)`, `CREATE TABLE mine (a BIGINT)`, `DROP TABLE tokens`,
				`UPDATE audit_records SET body = ''`, `UPDATE audit_subjects SET seq = 1`, `UPDATE audit_key SET private = ''`,
				`INSERT INTO audit_head SELECT 2, size, edge FROM audit_head`, `DELETE FROM audit_head`, `TRUNCATE audit_head`}
			for _, table := range []string{"audit_records", "audit_subjects", "audit_key"} {
				forbidden = append(forbidden, "DELETE FROM "+table, "TRUNCATE "+table, "ALTER TABLE "+table+" DISABLE TRIGGER ALL")
			}
			for _, text := range forbidden {
				if err := dbtest.TryExec(t, rowsURL, text); err == nil || !strings.Contains(err.Error(), "42501") {
					t.Errorf("the role with rows alone may %s: %v", text, err)
				}
			}
			mustShell(t, &m, "", at...)
			if m.From != m.To {
				t.Errorf("again: %+v", m)
			}
			if err := os.Remove(filepath.Join(data, tokenFile)); err != nil {
				t.Fatal(err)
			}
			dbtest.Exec(t, super, fmt.Sprintf(`DELETE FROM schema_version WHERE number = %d`, m.To))
			refused(fmt.Sprintf("its schema has number %d, this program needs %d", m.To-1, m.To))
		})
	}
}
