package main

import (
	"encoding/json"
	"os"
	"os/exec"
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
