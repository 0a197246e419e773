package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"countersign/internal/daemon"
)

// rekeyProcess starts rekey as a process of its own.
func rekeyProcess(t *testing.T, args ...string) *exec.Cmd {
	return exec.Command("countersign", append([]string{"rekey"}, args...)...)
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
