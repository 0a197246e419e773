package main

import (
	"strings"
	"testing"
)

// TestBench runs one suite from the command line; package bench tests what is
// measured.
func TestBench(t *testing.T) {
	status, printed, errOut := shell(t, "", "bench", "--quick", "--only", "latency", "--bits", "1024", "--dir", t.TempDir())
	if status != exitDone || !strings.Contains(printed, "RSA 1024 bit") || !strings.Contains(printed, "deposits at 50/s, due to settled") {
		t.Fatalf("status %d\n%s%s", status, printed, errOut)
	}
	if errOut != "" {
		t.Errorf("progress where there is no terminal: %q", errOut)
	}
}
