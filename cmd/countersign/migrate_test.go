package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// asRole gives the URL of a database for another role.
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

// TestRoles: one role makes the tables, and both daemons run with another that only reads
// and writes rows.
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
		{"service", nil, []string{"serve", "--listen", "127.0.0.1:0"}},
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
			status, grants, errOut := shell(t, "", append(at, "--grants", rows)...)
			if status != exitDone {
				t.Fatalf("%s", errOut)
			}
			dbtest.Exec(t, ownerURL, grants)
			d := startDaemon(t, start...)
			if end.name == "service" {
				mustShell(t, nil, "", "merchants", "add", "shop", "--bits", "1024", "--notify-url", "https://shop.example/n", "--withdraw-url", "https://shop.example/w",
					"--api", d.url, "--data", data)
				mustShell(t, nil, "", "freeze", "a try", "--api", d.url, "--data", data) // locks a table
			}
			if status := d.stop(t); status != 0 {
				t.Errorf("status %d: %s", status, d.failures())
			}
			for _, text := range []string{`INSERT INTO schema_version VALUES (99)`, `CREATE TABLE mine (a BIGINT)`, `DROP TABLE tokens`} {
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
