package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// rekeyProcess starts rekey as a process of its own.
func rekeyProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"rekey"}, args...)...)
	cmd.Env = append(os.Environ(), runAsCountersign+"=1")
	return cmd
}

// rekeyed runs rekey to its end.
func rekeyed(t *testing.T, args ...string) (r daemon.Rekeyed) {
	t.Helper()
	cmd := rekeyProcess(t, args...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("rekey %v: %v\n%s%s", args, err, out, errOut.String())
	}
	return r
}

// TestRekeyKilled: rekey is killed at any moment. The daemon always starts with the key that is
// in its directory, rekey does nothing while it runs, and in the end the new key alone opens
// everything.
func TestRekeyKilled(t *testing.T) {
	dbtest.Whole(t, "this test kills many processes")
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	start := func() *process { return startDaemon(t, "serve", "--data", data, "--listen", "127.0.0.1:0") }
	d := start()
	mustShell(t, nil, "", "merchants", "add", "shop", "--bits", "1024", "--notify-url", "https://shop.example/n", "--withdraw-url", "https://shop.example/w", "--api", d.url, "--data", data)
	if out, err := rekeyProcess(t, "--data", data).CombinedOutput(); err == nil || !strings.Contains(string(out), "in use by another process") || !strings.Contains(string(out), "stop that process") {
		t.Errorf("beside a daemon: %v\n%s", err, out)
	}
	if r := rekeyed(t, "--data", data, "--status"); r.State != "one key" {
		t.Errorf("beside a daemon: %+v", r)
	}
	if left, _ := filepath.Glob(filepath.Join(data, daemon.MasterKeyFile+".*")); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
	opens := func() {
		t.Helper()
		var m struct{ ID, PublicKey string }
		mustShell(t, &m, "", "merchants", "show", "shop", "--api", d.url, "--data", data)
	}
	turns := dbtest.Times(8, 3)
	if !dbtest.IsWhole() {
		turns = 3
	}
	replaced := map[string]bool{}
	for turn := range turns {
		d.stop(t)
		cmd := rekeyProcess(t, "--data", data)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if turn%3 != 1 {
			time.Sleep(rand.N(300 * time.Millisecond))
			cmd.Process.Kill()
		}
		cmd.Wait()
		d = start()
		opens()
		for _, k := range rekeyed(t, "--data", data, "--status").Keys {
			if k.Replaced != nil {
				replaced[k.Fingerprint] = true
			}
		}
	}
	d.stop(t)
	r := rekeyed(t, "--data", data)
	last := r.Keys[len(r.Keys)-1]
	if old := filepath.Join(data, daemon.MasterKeyFile) + "." + r.Keys[len(r.Keys)-2].Fingerprint; r.Old != old {
		t.Errorf("the old key is in %q, want %q", r.Old, old)
	}
	if r.State != "finished" || r.Unopened != 0 || last.Values < 2 {
		t.Errorf("in the end: %+v", r)
	}
	for _, k := range r.Keys[:len(r.Keys)-1] {
		if k.Values != 0 || k.Ended == nil {
			t.Errorf("key %s: %+v", k.Fingerprint, k)
		}
	}
	d = start()
	opens()
	t.Logf("%d keys were replaced under %d turns", len(replaced), turns)
	// The old key is of no use.
	d.stop(t)
	if err := os.Rename(r.Old, filepath.Join(data, daemon.MasterKeyFile)); err != nil {
		t.Fatal(err)
	}
	if status, _, errOut := shell(t, "", "serve", "--data", data, "--listen", "127.0.0.1:0"); status != exitFailed || !strings.Contains(errOut, "was replaced by "+last.Fingerprint) {
		t.Errorf("status %d: %s", status, errOut)
	}
}

// TestRekeyNodes: nodes that are given their key by a command notice the new one by
// themselves; until --finish they start with either.
func TestRekeyNodes(t *testing.T) {
	dbtest.Whole(t, "this test starts several processes")
	t.Parallel()
	url := dbtest.Postgres(t)
	dir := t.TempDir()
	secret := func(name, key string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+strings.Repeat(key, 32)+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	older, newer := secret("older", "a1"), secret("newer", "b2")
	n := 0
	start := func(command string) (*process, []string) {
		n++
		data := filepath.Join(dir, "node", string(rune('a'+n)))
		d := startDaemon(t, "serve", "--data", data, "--db", url, "--listen", "127.0.0.1:0", "--master-key-command", command)
		return d, []string{"--api", d.url, "--token", adminToken(t, filepath.Join(dir, "node", "b"))}
	}
	one, api := start(older)
	mustShell(t, nil, "", append([]string{"merchants", "add", "shop", "--bits", "1024", "--notify-url", "https://shop.example/n", "--withdraw-url", "https://shop.example/w"}, api...)...)
	two, api2 := start(older)
	opens := func(api []string) {
		t.Helper()
		mustShell(t, nil, "", append([]string{"merchants", "show", "shop"}, api...)...)
	}
	at := []string{"--data", filepath.Join(dir, "rekey"), "--db", url}
	r := rekeyed(t, append(at, "--master-key-command", older, "--new-master-key-command", newer)...)
	if r.State != "both keys" || len(r.Keys) != 2 || r.Keys[0].Values != 0 || r.Keys[1].Values < 2 {
		t.Errorf("%+v", r)
	}
	opens(api)
	opens(api2)
	two.stop(t)
	for _, command := range []string{newer, older, newer} {
		d, api := start(command)
		opens(api)
		d.stop(t)
	}
	if out, err := rekeyProcess(t, append(at, "--master-key-command", older, "--finish")...).CombinedOutput(); err == nil || !strings.Contains(string(out), "give the new one, "+r.Keys[1].Fingerprint) {
		t.Errorf("finished with the old key: %s", out)
	}
	if r = rekeyed(t, append(at, "--master-key-command", newer, "--finish")...); r.State != "finished" {
		t.Errorf("%+v", r)
	}
	opens(api) // it was never stopped
	mustShell(t, nil, "", append([]string{"merchants", "add", "stall", "--bits", "1024", "--notify-url", "https://stall.example/n", "--withdraw-url", "https://stall.example/w"}, api...)...)
	one.stop(t)
	status, _, errOut := shell(t, "", "serve", "--data", filepath.Join(dir, "late"), "--db", url, "--listen", "127.0.0.1:0", "--master-key-command", older)
	if status != exitFailed || !strings.Contains(errOut, "was replaced by") {
		t.Errorf("status %d: %s", status, errOut)
	}
	_, api = start(newer)
	opens(api)
	if r = rekeyed(t, append(at, "--master-key-command", newer, "--status")...); r.Keys[0].Values != 0 || r.Unopened != 0 {
		t.Errorf("%+v", r)
	}
}
