package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/daemon"
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

// TestRekey: the master key moves from the data directory to a command and is replaced there. A
// daemon starts with the new key alone, and no rekey runs beside it. TestRoles does it on PostgreSQL, and
// TestRekeyKilled of internal/daemon kills it.
func TestRekey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	secret := func(key string) string {
		path := filepath.Join(dir, key)
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+strings.Repeat(key, 32)+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	start := func(more ...string) *process {
		return startDaemon(t, append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, more...)...)
	}
	d := start()
	mustShell(t, nil, "", "merchants", "add", "shop", "key.bits=1024", "notifyUrl=https://shop.example/n", "withdrawUrl=https://shop.example/w", "--api", d.url, "--data", data)
	if out, err := rekeyProcess(t, "--data", data).CombinedOutput(); err == nil || !strings.Contains(string(out), "in use by another process") || !strings.Contains(string(out), "stop that process") {
		t.Errorf("beside a daemon: %v\n%s", err, out)
	}
	if out, err := rekeyProcess(t, "--data", data, "--finish").CombinedOutput(); err == nil || !strings.Contains(string(out), "is for --signing") {
		t.Errorf("--finish: %v\n%s", err, out)
	}
	d.stop(t)
	old, last := "", []string(nil)
	for _, step := range []struct{ rekey, serve []string }{
		{nil, nil},
		{[]string{"--new-master-key-command", secret("a1")}, []string{"--master-key-command", secret("a1")}},
		{[]string{"--master-key-command", secret("a1"), "--new-master-key-command", secret("b2")}, []string{"--master-key-command", secret("b2")}},
	} {
		r := rekeyed(t, append([]string{"--data", data}, step.rekey...)...)
		if r.Values < 3 || r.Old == r.Key || old != "" && r.Old != old {
			t.Errorf("%+v", r)
		}
		if old = r.Key; len(step.serve) > 0 {
			status, _, errOut := shell(t, "", append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, last...)...)
			if status != exitFailed || !strings.Contains(errOut, "master key") {
				t.Errorf("with the old key: status %d: %s", status, errOut)
			}
		}
		d := start(step.serve...)
		mustShell(t, nil, "", "merchants", "show", "shop", "--api", d.url, "--data", data)
		d.stop(t)
		last = step.serve
	}
}
