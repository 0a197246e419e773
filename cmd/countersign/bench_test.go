package main

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/internal/bench"
	"countersign/internal/lab/dbtest"
)

// TestBench runs one suite from the command line; package bench tests what is
// measured.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	status, printed, errOut := shell(t, "", "bench", "--quick", "--only", "bounds", "--dir", dir)
	if status != exitDone || !strings.Contains(printed, "RSA of both ends, all cores") {
		t.Fatalf("status %d\n%s%s", status, printed, errOut)
	}
	if errOut != "" {
		t.Errorf("progress where there is no terminal: %q", errOut)
	}
	status, printed, errOut = shell(t, "", "bench", "--quick", "--only", "bounds", "--dir", dir, "--json")
	var report bench.Report
	if err := json.Unmarshal([]byte(printed), &report); status != exitDone || err != nil {
		t.Fatalf("status %d, %v\n%s%s", status, err, printed, errOut)
	}
	if len(report.Figures) < 10 || report.Bits != 2048 || report.Inbox != "memory" || !report.Quick {
		t.Errorf("%+v", report)
	}
	if f, ok := report.Find("bounds.rsa_of_both_ends_all_cores"); !ok || f.Value <= 0 {
		t.Errorf("--json: %+v", report.Figures)
	}
}

func TestBenchRefuses(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	for _, test := range []struct {
		args string
		want string
	}{
		{"--only nothing", "no suite \"nothing\"\n  try: one of bounds, "},
		{"--bits 3072", "--bits"},
		{"--rate 0", "--rate"},
		{"--concurrency 5000", "--concurrency"},
		{"--merchants 1,0", "--merchants"},
		{"--backlog=-5", "above 0"},
		{"--size-for=0", "--size-for"},
		{"--for=-1s", "above 0"},
		{"--api http://127.0.0.1:1", "--token"},
		{"--api http://127.0.0.1:1 --token x --db postgres:///x", "--db"},
		{"--api http://127.0.0.1:1 --token x --only backlog", "backlog"},
		{"--dir /nonexistent/dir", "nonexistent"},
		{"--inbox paper", "inbox"},
	} {
		args := append([]string{"bench", "--quick"}, strings.Fields(test.args)...)
		if status, _, errOut := shell(t, "", args...); status == exitDone || !strings.Contains(errOut, test.want) {
			t.Errorf("%s: exit status %d, %q", test.args, status, errOut)
		}
	}
}

// What the help of --only says is what there is.
func TestBenchHelpNamesEverySuite(t *testing.T) {
	dbtest.NotRaced(t, "commands that end by themselves do one thing after another")
	status, out, errOut := shell(t, "", "bench", "--help")
	if status != exitDone {
		t.Fatalf("exit status %d: %s", status, errOut)
	}
	said := strings.Join(strings.Fields(out), " ")
	if want := "of: " + strings.Join(bench.SuiteNames(), ", ") + " ("; !strings.Contains(said, want) {
		t.Errorf("%q is not in %q", want, said)
	}
}
