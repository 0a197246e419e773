package main

import (
	"strings"
	"testing"

	"countersign/internal/lab/dbtest"
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

func TestBenchRefuses(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	for args, want := range map[string]string{
		"--only nothing":         "system",
		"--bits 3072":            "--bits",
		"--rate 0":               "--rate",
		"--size-for=0":           "--size-for",
		"--dir /nonexistent/dir": "nonexistent",
	} {
		if status, _, errOut := shell(t, "", append([]string{"bench", "--quick"}, strings.Fields(args)...)...); status == exitDone || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit status %d, %q", args, status, errOut)
		}
	}
}
