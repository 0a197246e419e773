package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

// asRole returns the URL of a database for another role.
func asRole(t *testing.T, dbURL, role string) string {
	t.Helper()
	u := must(url.Parse(dbURL))
	q := u.Query()
	q.Set("user", role)
	u.RawQuery = q.Encode()
	return u.String()
}

// TestRoles: one role makes the tables, and both daemons run with another that only reads and writes rows, and of the
// journal only adds them. The grants are those that docs/operator/README.md shows.
func TestRoles(t *testing.T) {
	dbtest.Whole(t, "this test starts both ends on PostgreSQL")
	t.Parallel()
	_, grants, _ := strings.Cut(page(t, "docs/operator/README.md"), "psql postgres://owner@HOST/service <<'END'\n")
	grants, _, _ = strings.Cut(grants, "END\n")
	for _, table := range append([]string{journal.Head}, journal.AppendOnly...) {
		if !regexp.MustCompile(`REVOKE .*\bpublic\.` + table + `\b.* FROM countersign;`).MatchString(grants) {
			t.Errorf("the page does not protect %s", table)
		}
	}
	c := newInstallation(t, map[string]string{})
	super, owner := map[string]string{}, map[string][]string{} // flags of a command for the owner
	c.flags["gateway"] = []string{"--service-key", secretFile(t, publicKey(t)), "--api-key", "shop-key-0123456789"}
	refused := func(end, want string) {
		t.Helper()
		status, _, errOut := shell(t, "", append(c.args(end), "--listen", "127.0.0.1:0")...)
		if status != exitFailed || !strings.Contains(errOut, want) || !strings.Contains(errOut, "countersign migrate") {
			t.Errorf("%s: status %d, want %q: %s", end, status, want, errOut)
		}
		if _, err := os.Stat(filepath.Join(c.data(end), tokenFile)); err == nil {
			t.Errorf("%s has left a token behind", end)
		}
	}
	var m daemon.Migrated
	for _, end := range bothEnds {
		super[end] = dbtest.Postgres(t)
		for _, text := range []string{`CREATE ROLE "owner_of_` + end + `" LOGIN`, `CREATE ROLE "` + end + `""rows" LOGIN`,
			`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE, USAGE ON SCHEMA public TO "owner_of_` + end + `"`} {
			dbtest.Exec(t, super[end], text)
		}
		ownerURL := asRole(t, super[end], "owner_of_"+end)
		c.url[end], owner[end] = asRole(t, super[end], end+`"rows`), []string{"--data", c.data(end), "--db", ownerURL}
		if end == "gateway" {
			owner[end] = append(owner[end], "--gateway")
		}
		refused(end, "its schema has number 0")
		mustShell(t, &m, "", append([]string{"migrate"}, owner[end]...)...)
		if m.From != 0 || m.To < 1 || m.Database != "postgres" {
			t.Errorf("%+v", m)
		}
		dbtest.Exec(t, ownerURL, strings.ReplaceAll(grants, " countersign;", ` "`+end+`""rows";`))
	}
	c.begin()
	c.fill()
	c.goesOn("")
	c.call("serve", "freeze", "a try") // locks a table
	for _, end := range bothEnds {
		if out, err := rekeyProcess(owner[end]...).CombinedOutput(); err == nil || !strings.Contains(string(out), "stop every daemon") {
			t.Errorf("rekey beside a daemon: %v\n%s", err, out)
		}
		if status := c.daemons[end].stop(t); status != 0 {
			t.Errorf("status %d: %s", status, c.daemons[end].output)
		}
		rows := slices.Concat(c.at(end), owner[end][4:])
		if out, err := rekeyProcess(rows...).CombinedOutput(); err == nil || !strings.Contains(string(out), "needs the role that owns the tables") {
			t.Errorf("rekey with rows alone: %v\n%s", err, out)
		}
		var r daemon.Rekeyed
		if rekeyed(t, &r, owner[end]...); r.Values < 2 || r.KeyFile == "" {
			t.Errorf("rekey: %+v", r)
		}
		c.start(end)
		c.call(end, "api", "tokens")
		c.daemons[end].stop(t)
		forbidden := []string{`INSERT INTO schema_version VALUES (99)`, `CREATE TABLE mine (a BIGINT)`, `DROP TABLE tokens`,
			`UPDATE audit_records SET body = ''`, `UPDATE audit_subjects SET seq = 1`, `UPDATE audit_key SET private = ''`,
			`INSERT INTO audit_head SELECT 2, size, edge FROM audit_head`, `DELETE FROM audit_head`, `TRUNCATE audit_head`}
		for _, table := range []string{"audit_records", "audit_subjects", "audit_key"} {
			forbidden = append(forbidden, "DELETE FROM "+table, "TRUNCATE "+table, "ALTER TABLE "+table+" DISABLE TRIGGER ALL")
		}
		for _, text := range forbidden {
			if err := dbtest.TryExec(t, c.url[end], text); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("the role with rows alone may %s: %v", text, err)
			}
		}
		mustShell(t, &m, "", append([]string{"migrate"}, owner[end]...)...)
		if m.From != m.To {
			t.Errorf("again: %+v", m)
		}
		ok(t, os.Remove(filepath.Join(c.data(end), tokenFile)))
		dbtest.Exec(t, super[end], fmt.Sprintf(`DELETE FROM schema_version WHERE number = %d`, m.To))
		refused(end, fmt.Sprintf("its schema has number %d, this program needs %d", m.To-1, m.To))
	}
}

// TestMove: both ends go on in PostgreSQL where they were in SQLite, and a permit is the same to its holder.
func TestMove(t *testing.T) {
	dbtest.Whole(t, "this test starts both ends twice")
	t.Parallel()
	c := newInstallation(t, map[string]string{})
	c.begin()
	c.fill()
	var before, after client.Permit
	c.read(&before, "serve", "withdrawals", "release", "shop/order", "claim=one")
	fails := func(want string, args ...string) {
		t.Helper()
		if status, _, errOut := shell(t, "", args...); status != exitFailed || !strings.Contains(errOut, want) {
			t.Errorf("%v: status %d %s, want %s", args, status, errOut, want)
		}
	}
	moves := map[string][]string{}
	for _, end := range bothEnds {
		to, file := dbtest.Postgres(t), c.args(end)
		move := []string{"migrate", "--move", "--data", c.data(end), "--db", to}
		if end == "gateway" {
			move = append(move, "--gateway")
		}
		fails("another process", move...)
		c.daemons[end].kill()
		var m daemon.MovedDatabase
		mustShell(t, &m, "", move...)
		if m.Tables < 10 || m.Rows < 20 || len(m.Digest) != 64 {
			t.Errorf("moved %+v", m)
		}
		fails("was moved from this directory", move...)
		fails(daemon.DatabaseFile, file...) // a start with the file that was moved
		c.url[end], moves[end] = to, move
		c.start(end)
	}
	c.goesOn("")
	if c.read(&after, "serve", "withdrawals", "release", "shop/order", "claim=one"); after.Permit != before.Permit || !after.Duplicate {
		t.Errorf("the permit was %+v and is %+v", before, after)
	}
	for _, end := range bothEnds {
		// With the file in its place again: what was done in PostgreSQL since is not overwritten.
		c.daemons[end].stop(t)
		file := filepath.Join(c.data(end), daemon.DatabaseFile)
		ok(t, os.Rename(file+".moved", file))
		fails("the database already has other rows", moves[end]...)
	}
}

// rekeyProcess starts rekey as a process of its own.
func rekeyProcess(args ...string) *exec.Cmd {
	return exec.Command("countersign", append([]string{"rekey"}, args...)...)
}

// rekeyed runs rekey to its end.
func rekeyed(t *testing.T, r any, args ...string) {
	t.Helper()
	cmd := rekeyProcess(args...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, r)
	}
	if err != nil {
		t.Fatalf("rekey %v: %v\n%s%s", args, err, out, errOut.String())
	}
}
