package main

import (
	"encoding/json"
	"errors"
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

// TestRekey: the new master key is the one that a command prints; package daemon tests what rekey does.
func TestRekey(t *testing.T) {
	dir := t.TempDir()
	data, program := filepath.Join(dir, "data"), filepath.Join(dir, "key")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho "+strings.Repeat("a1", 32)+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := daemon.NewService(daemon.ServiceConfig{Common: daemon.Common{Storage: daemon.Storage{Dir: data}}, Listen: "127.0.0.1:0"})
	if err == nil {
		err = errors.Join(s.Open(t.Context()), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if status, _, errOut := shell(t, "", "rekey", "--data", data, "--finish"); status != exitFailed || !strings.Contains(errOut, "needs --signing") {
		t.Errorf("--finish: %d %s", status, errOut)
	}
	key, err := daemon.ParseMasterKey(strings.Repeat("a1", 32))
	if err != nil {
		t.Fatal(err)
	}
	var r daemon.Rekeyed
	if mustShell(t, &r, "", "rekey", "--data", data, "--new-master-key-command", program); r.Key != key.Fingerprint() || r.Values == 0 {
		t.Errorf("%+v", r)
	}
}
