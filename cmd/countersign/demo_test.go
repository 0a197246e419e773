package main

import (
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
)

// TestDemo runs the demo and a suite of bench from the command line; packages demo and bench test what they do.
func TestDemo(t *testing.T) {
	dbtest.NotRaced(t, "package demo runs the demo under the detector")
	dbtest.Whole(t, "packages demo and bench test what they do")
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	status, out, errOut := shell(t, "", "demo", "--bits", "1024", "--data", data)
	if status != exitDone || strings.Count(out, "  holds") != 5 || errOut != "" { // no progress where there is no terminal
		t.Fatalf("status %d\n%s%s", status, out, errOut)
	}
	if status, _, errOut := shell(t, "", "demo", "--data", data); status != exitFailed || !strings.Contains(errOut, "is not empty\n  try: ") {
		t.Errorf("a second one: status %d, %s", status, errOut)
	}
	status, out, errOut = shell(t, "", "bench", "--quick", "--only", "latency", "--bits", "1024", "--dir", t.TempDir())
	if status != exitDone || !strings.Contains(out, "RSA 1024 bit") || !strings.Contains(out, "deposits at 50/s, due to settled") || errOut != "" {
		t.Errorf("bench: status %d\n%s%s", status, out, errOut)
	}
}
