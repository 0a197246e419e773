package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/internal/daemon"
	"countersign/internal/db/dbtest"
)

// benchFigures are the figures of each suite, by patterns of their names, with
// the least and the most that any machine could give. The limits catch a figure
// in the wrong unit or one that was never taken, not a slow machine.
var benchFigures = map[string][]struct {
	name        string
	least, most float64
}{
	"bounds": {
		{"service seals request, private", 10, 1e7}, {"merchant opens request, public", 1, 1e7},
		{"merchant seals answer, public", 1, 1e7}, {"service opens answer, private", 10, 1e7},
		{"RSA of both ends, all cores", 0.1, 1e6}, {"the same, one operation at once on each", 0.1, 1e6},
		{"loopback HTTP, bodies as long", 1, 1e7},
		{"a page written and synced", 0.1, 1e7}, {"deposits kept one by one, 1 at once", 0.1, 1e7},
		{"deposits kept one by one, 16 at once", 0.1, 1e7}, {"both bodies on the wire", 500, 1e5},
	},
	"system": {
		{"deposits, API to settled", 0.1, 1e6}, {"processor, both ends and the load", 0.05, 1e5}, {"of that in RSA", 0.5, 150},
		{"allocated", 1, 1e5}, {"allocations", 10, 1e6}, {"callbacks in a claim", 1, 1e4}, {"callbacks in a settlement", 1, 1e4},
		{mayLack + "written to disk", 0.01, 1e5}, // where the system counts it, and the directory is on a disk
	},
	"latency":   {{`deposits at 50.0/s, due to settled, (p50|p90|p99|p99\.9|max)`, 0.1, 3e5}},
	"merchants": {{"1 merchants", 0.1, 1e6}, {"3 merchants", 0.1, 1e6}},
	"faults": {
		{"all healthy, (p50|p90|p99|p99.9|max)", 0.1, 3e5}, {"one dead, one slow, (p50|p90|p99|p99.9|max)", 0.1, 3e5},
		{"p50 beside the broken", 0.1, 3e5}, {"p99 beside the broken", 0.1, 3e5},
	},
	"backlog": {
		{"withdrawals alone, (p50|p90|p99|p99.9|max)", 0.1, 3e5}, {"withdrawals beside 1500 deposits, (p50|p90|p99|p99.9|max)", 0.1, 3e5},
		{"p99 beside the backlog", 0.1, 3e5}, {"deposits left at the end", 0, 1500},
	},
	"claims": {{"64 of 500 due, (1|100) merchants, (p50|p99|processor)", 0.01, 3e5}},
	"rows": {
		{"claimed and settled in an empty database", 1, 1e7}, {"beside 1500 settled", 1, 1e7}, {"beside 2500 settled", 1, 1e7},
	},
	"memory": {
		{"peak, nothing waiting", 5, 1e4}, {"peak, 500 taken and waiting", 5, 1e4}, {"peak, while they are delivered", 5, 1e4},
	},
}

// mayLack begins the names of figures that not every system gives.
const mayLack = "()"

// runBench runs the command in this process and gives its report, which is
// checked against benchFigures for the suites given, or for all.
func runBench(t *testing.T, args []string, suites ...string) (report benchReport, printed string) {
	t.Helper()
	t.Setenv(runAsCountersign, "1") // for the service that the suite memory starts
	out := filepath.Join(t.TempDir(), "report.json")
	args = append([]string{"bench", "--quick", "--for", "300ms", "--dir", t.TempDir(), "--out", out}, args...)
	for _, s := range suites {
		args = append(args, "--only", s)
	}
	var stdout, stderr bytes.Buffer
	if code := run(args, streams{strings.NewReader(""), &stdout, &stderr}); code != exitDone {
		t.Fatalf("%v: exit status %d\n%s%s", args, code, &stdout, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("progress where there is no terminal: %q", &stderr)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	return report, stdout.String()
}

func checkFigures(t *testing.T, report benchReport, printed string, suites ...string) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range report.Figures {
		if seen[f.Suite+": "+f.Name] {
			t.Errorf("%s: %s is there twice", f.Suite, f.Name)
		}
		seen[f.Suite+": "+f.Name] = true
		known := false
		for _, want := range benchFigures[f.Suite] {
			if regexp.MustCompile("^" + want.name + "$").MatchString(f.Name) {
				known = true
				if math.IsNaN(f.Value) || f.Value < want.least || f.Value > want.most {
					t.Errorf("%s: %s is %v %s, which no machine gives", f.Suite, f.Name, f.Value, f.Unit)
				}
			}
		}
		if !known {
			t.Errorf("%s: %s is in no list", f.Suite, f.Name)
		}
		if f.Against != "" && (f.Bound <= 0 || f.Ratio <= 0) {
			t.Errorf("%s: %s is compared with %v, ratio %v", f.Suite, f.Name, f.Bound, f.Ratio)
		}
		if f.High < f.Low || f.High > 0 && (f.Value < f.Low || f.Value > f.High) {
			t.Errorf("%s: %s is %v, rounds %v to %v", f.Suite, f.Name, f.Value, f.Low, f.High)
		}
		if !strings.Contains(printed, f.Name) {
			t.Errorf("%s: %s is not in the table", f.Suite, f.Name)
		}
	}
	for _, suite := range suites {
		for _, want := range benchFigures[suite] {
			found := false
			for _, f := range report.Figures {
				found = found || f.Suite == suite && regexp.MustCompile("^"+want.name+"$").MatchString(f.Name)
			}
			if !found && !strings.HasPrefix(want.name, mayLack) {
				t.Errorf("%s: %s was not measured", suite, want.name)
			}
		}
	}
	for _, c := range report.Curves {
		last := 0.0
		for _, p := range c.Points {
			if p.Ms < last {
				t.Errorf("%s: %s falls at percentile %v", c.Suite, c.Name, p.Percentile)
			}
			last = p.Ms
		}
		if c.Count < 1 || len(c.Points) < 10 {
			t.Errorf("%s: %s has %d callbacks and %d points", c.Suite, c.Name, c.Count, len(c.Points))
		}
	}
}

// TestBench runs every suite, small, and looks for every figure.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	page, cpu, allocs := filepath.Join(dir, "report.html"), filepath.Join(dir, "cpu"), filepath.Join(dir, "allocs")
	report, printed := runBench(t, []string{"--callbacks", "40", "--rounds", "1", "--merchants", "1,3", "--pending", "500",
		"--rows", "1500,2500", "--html", page, "--cpu-profile", cpu, "--alloc-profile", allocs})
	checkFigures(t, report, printed, benchSuiteNames()...)
	if report.RSA != daemon.RSALibrary() || report.Bits != 1024 || report.Cores < 1 || !report.Quick || report.Database == "" ||
		time.Since(report.Started) > time.Hour {
		t.Errorf("%+v", report)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Figures {
		if !bytes.Contains(html, []byte(f.Name)) {
			t.Errorf("%s: %s is not in the page", f.Suite, f.Name)
		}
	}
	if bytes.Contains(html, []byte("://")) || bytes.Count(html, []byte("<svg")) < 5 || bytes.Count(html, []byte("<polyline")) != len(report.Curves) {
		t.Errorf("the page is not whole by itself, or lacks drawings: %d bytes", len(html))
	}
	for _, path := range []string{cpu, allocs} {
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("no profile: %v", err)
		}
	}
}

func TestBenchOnPostgres(t *testing.T) {
	report, printed := runBench(t, []string{"--db", dbtest.Postgres(t), "--callbacks", "30", "--rounds", "1", "--pending", "300",
		"--rows", "600"}, "system", "rows", "memory")
	if report.Database != "PostgreSQL" || !strings.Contains(printed, "beside 600 settled") || !strings.Contains(printed, "peak, 300 taken") {
		t.Error(printed)
	}
}

// The merchant can be a gateway, whose inbox is as durable as the outbox.
func TestBenchWithGateway(t *testing.T) {
	report, printed := runBench(t, []string{"--inbox", "sqlite", "--callbacks", "30", "--rounds", "1"}, "system", "backlog")
	checkFigures(t, report, printed, "system", "backlog")
	if report.Inbox != "sqlite" {
		t.Errorf("inbox: %s", report.Inbox)
	}
}

// A service that runs elsewhere is measured through its API alone.
func TestBenchOfRunningService(t *testing.T) {
	dir := t.TempDir()
	d := startDaemon(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--allow-http", "--allow-private")
	report, printed := runBench(t, []string{"--api", d.url, "--token", "@" + filepath.Join(dir, tokenFile), "--callbacks", "30", "--rounds", "1"})
	for _, want := range []string{"deposits, API to settled", "due to taken by the merchant, p99", "RSA of both ends"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in\n%s", want, printed)
		}
	}
	for _, f := range report.Figures {
		if f.Suite != "bounds" && f.Suite != "system" && f.Suite != "latency" {
			t.Errorf("%s: %s cannot have been measured from outside", f.Suite, f.Name)
		}
	}
	if code := d.stop(t); code != 0 {
		t.Errorf("serve: exit status %d", code)
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"--only nothing", "no suite"},
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
		var out, stderr bytes.Buffer
		args := append([]string{"bench", "--quick"}, strings.Fields(test.args)...)
		if code := run(args, streams{strings.NewReader(""), &out, &stderr}); code == exitDone || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: exit status %d, %q", test.args, code, &stderr)
		}
	}
}

// A bench must not work in the database of a service.
func TestBenchLeavesServicesAlone(t *testing.T) {
	t.Setenv(runAsCountersign, "1")
	url := dbtest.Postgres(t)
	d := startDaemon(t, "serve", "--data", t.TempDir(), "--db", url, "--listen", "127.0.0.1:0")
	d.stop(t)
	var out, stderr bytes.Buffer
	for _, suite := range []string{"system", "rows", "memory"} {
		stderr.Reset()
		code := run([]string{"bench", "--quick", "--db", url, "--only", suite, "--dir", t.TempDir()}, streams{strings.NewReader(""), &out, &stderr})
		if code != exitFailed || !strings.Contains(stderr.String(), "master key") {
			t.Errorf("%s: exit status %d, %q", suite, code, &stderr)
		}
	}
}

// What the help of --only says is what there is.
func TestBenchHelpNamesEverySuite(t *testing.T) {
	var out, stderr bytes.Buffer
	if code := run([]string{"bench", "--help"}, streams{strings.NewReader(""), &out, &stderr}); code != exitDone {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	said := strings.Join(strings.Fields(out.String()), " ")
	if want := "of: " + strings.Join(benchSuiteNames(), ", ") + " ("; !strings.Contains(said, want) {
		t.Errorf("%q is not in %q", want, said)
	}
}

func TestLatenciesAreCountedFromTheSchedule(t *testing.T) {
	s, l, due := newSettledSink(), newLatencies(), time.Now()
	s.time(1)
	l.open.Add(2)
	s.begin(l, "told first", due)
	s.end("told first", true, due.Add(3*time.Millisecond))
	s.end("settled before it was told", true, due.Add(40*time.Millisecond))
	s.begin(l, "settled before it was told", due)
	s.end("never timed", true, due)
	l.open.Wait()
	if n := l.hist.TotalCount(); n != 2 || math.Abs(l.ms(50)-3) > 0.01 || math.Abs(l.ms(100)-40) > 0.1 {
		t.Errorf("%d: p50 %v, max %v", n, l.ms(50), l.ms(100))
	}
	s.time(-1)
	if len(s.early) != 0 {
		t.Errorf("%d ends are remembered for nobody", len(s.early))
	}
	if s.accepted.Load() != 3 {
		t.Errorf("%d accepted", s.accepted.Load())
	}
}

func TestWaitSaysWhatIsLost(t *testing.T) {
	s := newSettledSink()
	go s.end("a", true, time.Now())
	if err := s.wait(t.Context(), 1); err != nil {
		t.Error(err)
	}
	s.end("b", false, time.Now())
	if err := s.wait(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "1 callbacks ended without being accepted") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newSettledSink().wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
