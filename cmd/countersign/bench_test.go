package main

import (
	"strings"
	"testing"
)

// TestBench runs one suite from the command line; package bench tests what is
// measured.
func TestBench(t *testing.T) {
	status, printed, errOut := shell(t, "", "bench", "--quick", "--only", "system", "--dir", t.TempDir())
	if status != exitDone || !strings.Contains(printed, "RSA 2048 bit") || !strings.HasPrefix(printed[strings.LastIndex(printed, "\nfor "):], "\nfor 100 deposits a second of 2048 bits") {
		t.Fatalf("status %d\n%s%s", status, printed, errOut)
	}
	if errOut != "" {
		t.Errorf("progress where there is no terminal: %q", errOut)
	}
}
