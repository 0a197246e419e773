package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/client"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/lab/dbtest"
)

// wantFigures are the figures of each suite, by patterns of their names, with
// the least and the most that any machine could give. The limits catch a figure
// in the wrong unit or one that was never taken, not a slow machine.
var wantFigures = map[string][]struct {
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
		{"kept in the service's database", 0.1, 1e3},
		{mayLack + "written to disk", 0.01, 1e5}, // where the system counts it, and the directory is on a disk
	},
	"latency":   {{`deposits at 50.0/s, due to settled, (p50|p90|p99|p99\.9|max)`, 0.1, 3e5}},
	"merchants": {{"1 merchants", 0.1, 1e6}, {"3 merchants", 0.1, 1e6}},
	"faults": {
		{"(deposits|withdrawals) beside 2 slow of 12, (p50|p99|max)", 0.1, 3e5},
		{"(deposits|withdrawals) beside 10 hanging of 20, (p50|p99|max)", 0.1, 3e5},
	},
	"backlog": {
		{"withdrawals alone, (p50|p90|p99|p99.9|max)", 0.1, 3e5}, {"withdrawals beside 1500 deposits, (p50|p90|p99|p99.9|max)", 0.1, 3e5},
		{"p99 beside the backlog", 0.1, 3e5}, {"deposits left at the end", 0, 1500},
	},
	"withdrawals": {
		{"(order|until the question|confirmation|release|outcome|notice|whole), (p50|p99)", 0.0005, 3e5}, {"withdrawals, the whole of each", 0.1, 1e3},
	},
	"gateway": {
		{"deposits taken by a gateway on one core", 0.1, 1e6}, {"processor, the (gateway|callers)", 0.1, 1e6},
	},
}

// mayLack begins the names of figures that not every system gives.
const mayLack = "()"

var scratch string // a directory for all tests

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "countersign-bench-test-"); err != nil {
		panic(err)
	}
	code := dbtest.Run(m)
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// binary builds the program as it is shipped, for the suite gateway. Other tests build it so
// too, so that it is compiled once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "countersign")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-o", path, "countersign/cmd/countersign")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building countersign: %w\n%s", err, out)
	}
	return path, nil
})

// quick is a Config of small sizes for the suites given, or for all.
func quick(t *testing.T, suites ...string) Config {
	return Config{Quick: true, Bits: 1024, SizeFor: 100, Concurrency: 64, Rate: 50, For: 300 * time.Millisecond, Dir: t.TempDir(), Only: suites}
}

// runBench runs c and gives the report, read back from its JSON, and its text.
func runBench(t *testing.T, c Config) (report Report, printed string) {
	t.Helper()
	if len(c.Only) == 0 && c.Service == nil || slices.Contains(c.Only, "gateway") {
		var err error
		if c.Binary, err = binary(); err != nil {
			t.Fatal(err)
		}
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 {
		t.Errorf("%d files are left, error %v", len(entries), err)
	}
	var text, object bytes.Buffer
	if err := errors.Join(found.Print(&text), found.JSON(&object)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(object.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report, text.String()
}

func checkFigures(t *testing.T, report Report, printed string, suites ...string) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range report.Figures {
		if seen[f.Suite+": "+f.Name] {
			t.Errorf("%s: %s is there twice", f.Suite, f.Name)
		}
		seen[f.Suite+": "+f.Name] = true
		known := false
		for _, want := range wantFigures[f.Suite] {
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
		for _, want := range wantFigures[suite] {
			found := false
			for _, f := range report.Figures {
				found = found || f.Suite == suite && regexp.MustCompile("^"+want.name+"$").MatchString(f.Name)
			}
			if !found && !strings.HasPrefix(want.name, mayLack) {
				t.Errorf("%s: %s was not measured", suite, want.name)
			}
		}
	}
}

// TestBench runs every suite, small, and looks for every figure.
func TestBench(t *testing.T) {
	dbtest.Whole(t, "this test runs every suite")
	c := quick(t)
	c.Callbacks, c.Rounds, c.Merchants = 40, 1, []int{1, 3}
	var stages []string
	c.Progress = func(line string) { stages = append(stages, line) }
	report, printed := runBench(t, c)
	checkFigures(t, report, printed, SuiteNames()...)
	if report.RSA != envelope.Library() || report.Bits != 1024 || report.Cores < 1 || !report.Quick || report.Database == "" ||
		time.Since(report.Started) > time.Hour {
		t.Errorf("%+v", report)
	}
	for _, s := range Suites() {
		if !slices.Contains(stages, s.Name+": "+s.About) {
			t.Errorf("no progress of suite %s", s.Name)
		}
	}
	cpu, _ := report.Find("system.processor_both_ends_and_the_load")
	kept, _ := report.Find("system.kept_in_the_service_s_database")
	want := Needs{PerSecond: 100, Cores: cpu.Value / 10, GBADay: kept.Value * 8.64}
	if n := report.Needs; n == nil || n.PerSecond != want.PerSecond || math.Abs(n.Cores-want.Cores) > 1e-6 || math.Abs(n.GBADay-want.GBADay) > 1e-6 {
		t.Errorf("it needs %+v, want %+v", n, want)
	}
	last := fmt.Sprintf("\nfor 100 deposits a second of 1024 bits you need about %s cores and %s GB a day\n", number(want.Cores), number(want.GBADay))
	if !strings.HasSuffix(printed, last) {
		t.Errorf("the report does not end with %q:\n%s", last, printed)
	}
}

func TestPostgres(t *testing.T) {
	c := quick(t, "bounds", "system")
	c.DB, c.Callbacks, c.Rounds = dbtest.Postgres(t), 30, 1
	report, printed := runBench(t, c)
	checkFigures(t, report, printed, "bounds", "system")
	if report.Database != "PostgreSQL" || report.Needs == nil || report.Needs.GBADay <= 0 {
		t.Errorf("%+v\n%s", report.Needs, printed)
	}
}

// The merchant can be a gateway, whose inbox is as durable as the outbox.
func TestGatewayAsMerchant(t *testing.T) {
	c := quick(t, "system", "backlog", "withdrawals")
	c.Inbox, c.Callbacks, c.Rounds = "sqlite", 30, 1
	report, printed := runBench(t, c)
	checkFigures(t, report, printed, "system", "backlog", "withdrawals")
	if report.Inbox != "sqlite" {
		t.Errorf("inbox: %s", report.Inbox)
	}
}

// startService runs a service until the test ends.
func startService(t *testing.T, storage daemon.Storage) (s *daemon.Service, token string) {
	t.Helper()
	s, err := daemon.NewService(daemon.ServiceConfig{Storage: storage, Listen: "127.0.0.1:0", AllowPrivate: true, AllowHTTP: true,
		ShowToken: func(first, _ string) { token = first }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, token
}

// A service that runs elsewhere is measured through its API alone.
func TestRunningService(t *testing.T) {
	s, token := startService(t, daemon.Storage{Dir: t.TempDir()})
	api, err := client.NewService(client.Config{URL: s.URL(), Token: client.Secret(token)})
	if err != nil {
		t.Fatal(err)
	}
	c := quick(t)
	c.Service, c.Callbacks, c.Rounds = api, 30, 1
	report, printed := runBench(t, c)
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
}

func TestNewRefuses(t *testing.T) {
	api, err := client.NewService(client.Config{URL: "http://127.0.0.1:1", Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"no suite":      func(c *Config) { c.Only = []string{"nothing"} },
		"--bits":        func(c *Config) { c.Bits = 3072 },
		"--rate":        func(c *Config) { c.Rate = 0 },
		"--concurrency": func(c *Config) { c.Concurrency = 5000 },
		"--merchants":   func(c *Config) { c.Merchants = []int{1, 0} },
		"--backlog":     func(c *Config) { c.Backlog = -5 },
		"--size-for":    func(c *Config) { c.SizeFor = 0 },
		"--for":         func(c *Config) { c.For = -time.Second },
		"--db":          func(c *Config) { c.Service, c.DB = api, "postgres:///x" },
		"backlog":       func(c *Config) { c.Service, c.Only = api, []string{"backlog"} },
		"--inbox":       func(c *Config) { c.Inbox = "paper" },
	} {
		c := quick(t)
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := quick(t, "system")
	c.Dir = "/nonexistent/dir"
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := b.Run(t.Context()); report != nil || err == nil || !strings.Contains(err.Error(), "nonexistent") {
		t.Errorf("a report without a directory: %v", err)
	}
}

// A bench must not work in the database of a service.
func TestLeavesServicesAlone(t *testing.T) {
	url := dbtest.Postgres(t)
	startService(t, daemon.Storage{Dir: t.TempDir(), DB: url})
	for _, suite := range []string{"bounds", "system"} {
		c := quick(t, suite)
		c.DB = url
		b, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if report, err := b.Run(t.Context()); report != nil || err == nil || !strings.Contains(err.Error(), "master key") {
			t.Errorf("%s: %v", suite, err)
		}
	}
}

func TestLatenciesAreCountedFromTheSchedule(t *testing.T) {
	s, l, due := newTracker(), newLatencies(), time.Now()
	s.measuring(1)
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
	s.measuring(-1)
	if len(s.early) != 0 {
		t.Errorf("%d ends are remembered for nobody", len(s.early))
	}
	if s.accepted.Load() != 3 {
		t.Errorf("%d accepted", s.accepted.Load())
	}
}

func TestWaitSaysWhatIsLost(t *testing.T) {
	s := newTracker()
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
	if err := newTracker().wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNoise: a bound that moved between rounds is told, one that did not is not.
func TestNoise(t *testing.T) {
	for _, c := range []struct {
		name   string
		bounds []float64
		told   bool
	}{
		{"quiet", []float64{100, 101, 99, 100, 102}, false},
		{"one loud round", []float64{100, 101, 99, 60, 102}, false},
		{"loud", []float64{100, 80, 99, 60, 102}, true},
		{"one round", []float64{100}, false},
	} {
		r := newReport(Config{})
		r.listen(c.bounds)
		var out strings.Builder
		if err := r.Print(&out); err != nil {
			t.Fatal(err)
		}
		if (r.Moved > 0) != c.told || strings.Contains(out.String(), "not quiet") != c.told {
			t.Errorf("%s: moved %v, %q", c.name, r.Moved, out.String())
		}
	}
	if q := quantile([]float64{4, 1, 3, 2}, 0.25); q != 1.75 {
		t.Errorf("the lower quartile is %v", q)
	}
}

// Programs read reports: neither the members nor the keys of what they read may change.
func TestReportKeys(t *testing.T) {
	full := Figure{Low: 1, High: 1, Bound: 1, Against: "x", Ratio: 1, RatioLow: 1, RatioHigh: 1, Note: "x"}
	r := newReport(Config{Bits: 1024, Inbox: "memory"})
	r.LeftOut, r.Moved, r.Figures, r.Needs = "x", 1, []Figure{full}, &Needs{}
	var out bytes.Buffer
	if err := r.JSON(&out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(out.String(), -1) {
		got = append(got, m[1])
	}
	want := strings.Fields("version go rsa system cores bits database inbox quick leftOut moved started tookSeconds figures " +
		"key suite name unit value low high bound against ratio ratioLow ratioHigh note needs perSecond cores gbPerDay")
	if !slices.Equal(got, want) {
		t.Errorf("members of a report: %v\nwant %v", got, want)
	}
	for want, name := range map[string][2]string{
		"system.deposits_api_to_settled":                  {"system", "deposits, API to settled"},
		"latency.deposits_at_50_0_s_due_to_settled_p99_9": {"latency", "deposits at 50.0/s, due to settled, p99.9"},
		"gateway.deposits_taken_by_a_gateway_on_one_core": {"gateway", "deposits taken by a gateway on one core"},
		"bounds.the_same_one_operation_at_once_on_each":   {"bounds", "the same, one operation at once on each"},
		"system.kept_in_the_service_s_database":           {"system", "kept in the service's database"},
		"faults.withdrawals_beside_2_slow_of_52_p99":      {"faults", "withdrawals beside 2 slow of 52, p99"},
	} {
		if got := keyOf(name[0], name[1]); got != want {
			t.Errorf("%v has the key %s, want %s", name, got, want)
		}
	}
}
