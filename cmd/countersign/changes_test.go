package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
)

// A change of a merchant, of its keys and of tokens, proposed by one person and decided by
// another, from the shell.
func TestChangesFromTheShell(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	d := startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	as := func(name string, args ...string) []string {
		return append(args, "--api", d.url, "--token", "@"+filepath.Join(dir, name))
	}
	person := func(name, role string, more ...string) client.Token {
		t.Helper()
		var made client.Token
		mustShell(t, &made, "", append([]string{"token", "new", name, "role=" + role, "--out", filepath.Join(dir, name), "--api", d.url, "--data", data}, more...)...)
		return made
	}
	mustShell(t, nil, "", "merchants", "add", "shop", "notifyUrl=http://127.0.0.1:1/n", "withdrawUrl=http://127.0.0.1:1/w", "key.bits=1024",
		"--out", filepath.Join(dir, "shop"), "--api", d.url, "--data", data)
	alice := person("alice", "operator", "expires=90d")
	if left := time.Until(alice.Expires.Time()); left < 89*24*time.Hour || left > 90*24*time.Hour {
		t.Errorf("it expires in %v", left)
	}
	if eyes := person("eyes", "viewer", "merchants=shop"); len(eyes.Merchants) != 1 || eyes.Merchants[0] != "shop" {
		t.Errorf("%+v", eyes)
	}
	bob := person("bob", "approver")

	propose := func(url string) string {
		t.Helper()
		var p client.Proposed
		errOut := tellingShell(t, &p, "", as("alice", "merchants", "edit", "shop", "withdrawUrl="+url)...)
		if p.Task == "" || !strings.Contains(errOut, "nothing has changed yet: it waits for an approver; tasks approve "+p.Task) {
			t.Fatalf("%+v, %s", p, errOut)
		}
		return p.Task
	}
	first, second := propose("http://127.0.0.1:2/w"), propose("http://127.0.0.1:3/w")
	status, table, errOut := shell(t, "", as("eyes", "api", "tasks", "kind=change")...)
	if status != exitDone || !strings.Contains(table, `"value": "http://127.0.0.1:2/w"`) {
		t.Errorf("%d %s%s", status, table, errOut)
	}
	var c client.Task
	mustShell(t, nil, "", as("bob", "tasks", "approve", first)...)
	mustShell(t, &c, "", as("eyes", "tasks", "show", first)...)
	if c.State != client.TaskDone || len(c.Votes) != 1 || c.Votes[0].Actor != bob.ID {
		t.Errorf("%+v", c)
	}
	for _, what := range []string{"approve", "decline"} { // the first finds out that it is stale
		if status, _, errOut := shell(t, "", as("bob", "tasks", what, second)...); status != exitFailed || !strings.Contains(errOut, "409 Conflict: the change is stale") {
			t.Errorf("%s: %d %s", what, status, errOut)
		}
	}
	third := propose("http://127.0.0.1:4/w")
	mustShell(t, nil, "", as("bob", "tasks", "decline", third, "reason=not today")...)
	mustShell(t, &c, "", as("eyes", "tasks", "show", third)...)
	if c.State != client.TaskDeclined || c.Why != "not today" {
		t.Errorf("%+v", c)
	}

	// A token that waits is in its file, and not valid before it is approved.
	var waits client.Proposed
	errOut = tellingShell(t, &waits, "", append([]string{"token", "new", "core", "role=core", "--out", filepath.Join(dir, "core")}, as("alice")...)...)
	if waits.Task == "" || !strings.Contains(errOut, "nothing has changed yet") {
		t.Fatalf("%+v %s", waits, errOut)
	}
	if status, _, errOut := shell(t, "", as("core", "withdrawals", "list")...); status != exitFailed || !strings.Contains(errOut, "401") {
		t.Errorf("before it is approved: %d %s", status, errOut)
	}
	mustShell(t, nil, "", as("bob", "tasks", "approve", waits.Task)...)
	mustShell(t, nil, "", as("core", "withdrawals", "list")...)
	// The end of the only approver waits for another.
	waits = client.Proposed{}
	errOut = tellingShell(t, &waits, "", as("alice", "api", "revokeToken", bob.ID)...)
	if waits.Task == "" || !strings.Contains(errOut, "nothing has changed yet") {
		t.Errorf("%+v %s", waits, errOut)
	}

	// Only somebody at the machine lets one person decide alone again.
	d.stop(t)
	if status, _, errOut := shell(t, "", "no-approvers", "--data", data); status != exitFailed || !strings.Contains(errOut, "--yes") {
		t.Errorf("without --yes: %d %s", status, errOut)
	}
	var ended struct{ Ended []string }
	mustShell(t, &ended, "", "no-approvers", "--data", data, "--yes")
	if !slices.Equal(ended.Ended, []string{bob.ID}) {
		t.Errorf("ended %q", ended.Ended)
	}
	d = startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--allow-private", "--allow-http")
	if status, _, errOut := shell(t, "", as("bob", "api", "tasks")...); status != exitFailed || !strings.Contains(errOut, "was revoked") {
		t.Errorf("the approver: %d %s", status, errOut)
	}
	var m client.Merchant
	mustShell(t, &m, "", as("alice", "merchants", "edit", "shop", "withdrawUrl=http://127.0.0.1:5/w")...)
	if m.WithdrawURL != "http://127.0.0.1:5/w" {
		t.Errorf("%+v", m)
	}
	if status, out, errOut := shell(t, "", as("alice", "audit", "export")...); status != exitDone || !strings.Contains(out, `"kind":"approvers.ended"`) {
		t.Errorf("the audit log: %d %s", status, errOut)
	}
}
