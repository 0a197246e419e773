package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/bench"
	"countersign/internal/lab/dbtest"
)

// TestBench runs one suite from the command line; package bench tests what is
// measured.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	out, page := filepath.Join(dir, "report.json"), filepath.Join(dir, "report.html")
	status, printed, errOut := shell(t, "", "bench", "--quick", "--only", "bounds", "--dir", dir, "--out", out, "--html", page)
	if status != exitDone || !strings.Contains(printed, "RSA of both ends, all cores") {
		t.Fatalf("status %d\n%s%s", status, printed, errOut)
	}
	if errOut != "" {
		t.Errorf("progress where there is no terminal: %q", errOut)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var report bench.Report
	if err := json.Unmarshal(b, &report); err != nil || len(report.Figures) < 10 || report.Bits != 1024 || report.Inbox != "memory" || !report.Quick {
		t.Errorf("%+v, %v", report, err)
	}
	var printedReport bench.Report
	status, printed, errOut = shell(t, "", "bench", "--quick", "--only", "bounds", "--dir", dir, "--json")
	if err := json.Unmarshal([]byte(printed), &printedReport); status != exitDone || err != nil {
		t.Fatalf("status %d, %v\n%s%s", status, err, printed, errOut)
	}
	if f, ok := printedReport.Find("bounds.rsa_of_both_ends_all_cores"); !ok || f.Value <= 0 {
		t.Errorf("--json: %+v", printedReport.Figures)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "RSA of both ends") {
		t.Errorf("the page has %d bytes, error %v", len(b), err)
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
		{"--rows=10,-1", "above 0"},
		{"--pending=-5", "above 0"},
		{"--for=-1s", "above 0"},
		{"--api http://127.0.0.1:1", "--token"},
		{"--api http://127.0.0.1:1 --token x --db postgres:///x", "--db"},
		{"--api http://127.0.0.1:1 --token x --only rows", "rows"},
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
