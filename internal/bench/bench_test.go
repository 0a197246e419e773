package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/internal/daemon"
	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// wantFigures are the figures of each suite, by patterns of their names, with the least and the
// most that any machine could give. The limits catch a figure in the wrong unit or one that was
// never taken, not a slow machine.
var wantFigures = map[string][]wantFigure{
	"system": {
		{"deposits, API to settled", 0.1, 1e6}, {"RSA of both ends alone, all cores", 0.1, 1e6}, {"of what RSA alone allows", 0.1, 1e3},
		{"processor, both ends and the load", 0.05, 1e5}, {"of that in RSA", 0.5, 150}, {"kept in the service's database", 0.1, 1e3},
	},
	"latency":     {{"deposits at 20/s, due to settled", 0.1, 3e5}},
	"withdrawals": {{"(order|confirmation|release|outcome|notice|whole)", 0, 3e5}},
	"gateway":     {{"deposits taken with SQLite, 64 callers on the same cores", 0.1, 1e6}, {"processor, callers included", 0.1, 1e6}},
}

type wantFigure struct {
	name        string
	least, most float64
}

// is reports whether f is the figure.
func (w wantFigure) is(f Figure) bool {
	return regexp.MustCompile("^" + w.name + "$").MatchString(f.Name)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quick is a Config of small sizes for the suites given, or for all.
func quick(t *testing.T, suites ...string) Config {
	return Config{Quick: true, Bits: 1024, SizeFor: 100, Rate: 20, Dir: t.TempDir(), Only: suites, Progress: func(string) {}}
}

// runBench runs c, and looks for every figure of the suites in the report and in its text.
func runBench(t *testing.T, c Config, suites ...string) (report *Report, printed string) {
	t.Helper()
	report, err := Run(t.Context(), c)
	ok(t, err)
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 {
		t.Errorf("%d files are left, error %v", len(entries), err)
	}
	var text strings.Builder
	ok(t, report.Print(&text))
	printed = text.String()
	seen := map[string]bool{}
	for _, f := range report.Figures {
		if seen[f.Suite+f.Name] {
			t.Errorf("%s: %s occurs twice", f.Suite, f.Name)
		}
		seen[f.Suite+f.Name] = true
		i := slices.IndexFunc(wantFigures[f.Suite], func(want wantFigure) bool { return want.is(f) })
		if i < 0 || !slices.Contains(suites, f.Suite) {
			t.Errorf("%s: %s is in no list", f.Suite, f.Name)
			continue
		}
		for _, v := range f.Values {
			if want := wantFigures[f.Suite][i]; math.IsNaN(v) || v < want.least || v > want.most {
				t.Errorf("%s: %s is %v %s, which no machine gives", f.Suite, f.Name, v, f.Unit)
			}
		}
		if !strings.Contains(printed, f.Name) || len(f.Values) == 0 {
			t.Errorf("%s: %s is not in the table, or has no value:\n%s", f.Suite, f.Name, printed)
		}
	}
	for _, suite := range suites {
		for _, want := range wantFigures[suite] {
			if !slices.ContainsFunc(report.Figures, func(f Figure) bool { return f.Suite == suite && want.is(f) }) {
				t.Errorf("%s: %s was not measured", suite, want.name)
			}
		}
	}
	return report, printed
}

// TestBench runs every suite, small, and looks for every figure and the last line. PostgreSQL has the suite that
// measures its size, and then one beside what the earlier bench left, which is paused.
func TestBench(t *testing.T) {
	c := quick(t)
	var said []string
	c.Progress = func(line string) { said = append(said, line) }
	checkSystem(t, c, "SQLite", "system", "latency", "withdrawals", "gateway")
	if !slices.Contains(said, "system: round 2 of 2, 60 deposits") {
		t.Errorf("the progress is %q", said)
	}
	c = quick(t, "system")
	c.DB = dbtest.Postgres(t)
	checkSystem(t, c, "PostgreSQL", "system")
	c.Only = []string{"latency"}
	runBench(t, c, "latency")
}

// checkSystem runs c, whose suites are given, and checks the first and the last line of the report.
func checkSystem(t *testing.T, c Config, database string, suites ...string) {
	t.Helper()
	report, printed := runBench(t, c, suites...)
	if !strings.Contains(report.About, envelope.Library()) || !strings.Contains(report.About, "1024 bit") ||
		!strings.Contains(report.About, database) {
		t.Error(report.About)
	}
	of := func(name string) float64 {
		i := slices.IndexFunc(report.Figures, func(f Figure) bool { return f.Name == name })
		return quantile(report.Figures[i].Values, 0.5)
	}
	want := fmt.Sprintf("for 100 deposits a second of 1024 bits you need about %s cores and %s GB a day",
		number(of("processor, both ends and the load")/10), number(of("kept in the service's database")*8.64))
	if !strings.HasSuffix(printed, "\n"+want+"\n") {
		t.Errorf("the report does not end with %q:\n%s", want, printed)
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--bits":      func(c *Config) { c.Bits = 3072 },
		"--rate":      func(c *Config) { c.Rate = 0 },
		"--size-for":  func(c *Config) { c.SizeFor = 0 },
		"--rounds":    func(c *Config) { c.Quick = false },
		"--for":       func(c *Config) { c.Quick, c.Rounds, c.For = false, 1, -time.Second },
		"nonexistent": func(c *Config) { c.Dir = "/nonexistent/dir" },
	} {
		c := quick(t, "system")
		change(&c)
		if report, err := Run(t.Context(), c); report != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A bench must not work in the database of a service.
func TestLeavesServicesAlone(t *testing.T) {
	url := dbtest.Postgres(t)
	s, err := daemon.NewService(daemon.ServiceConfig{Common: daemon.Common{Storage: daemon.Storage{Dir: t.TempDir(), DB: url}},
		Listen: "127.0.0.1:0"})
	ok(t, err)
	ok(t, errors.Join(s.Open(t.Context()), s.Close()))
	c := quick(t, "system")
	c.DB = url
	if report, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "master key") || len(report.Figures) > 0 {
		t.Error(err)
	}
}

// TestSizes: what is measured takes as many blocks as deposits of real services and the answers to them do.
func TestSizes(t *testing.T) {
	b := Bench{}
	b.next.Store(time.Now().UnixMicro())
	keys := countersigntest.NewService(t)
	plain, sent, err := keys.Plaintext(b.deposit())
	ok(t, err)
	answer, err := sent.Accept(countersign.Details{}).Marshal()
	ok(t, err)
	for _, n := range []int{len(plain), len(answer), answerSize} {
		if got := keys.MerchantKey().Blocks(envelope.PKCS1v15, n); got != 4 {
			t.Errorf("%d bytes (plaintext %d, answer %d) take %d blocks of 1024 bits", n, len(plain), len(answer), got)
		}
	}
}

// settles settles a list as it says.
type settles struct{ dispatch.Outbox }

func (settles) Settle(_ context.Context, list []outbox.Settlement, _ db.Millis) ([]outbox.Settled, error) {
	return slices.Repeat([]outbox.Settled{{Applied: true}}, len(list)), nil
}

func TestWaitSaysWhatIsLost(t *testing.T) {
	s := &settled{news: make(chan struct{}), keys: map[string]string{"a": keyOf(countersign.TypeDeposited, "a")}, at: map[string]time.Time{}}
	o := watchedOutbox{settles{}, s}
	settle := func(id string, state client.CallbackState) {
		if _, err := o.Settle(t.Context(), []outbox.Settlement{{CallbackID: id, State: state}}, 0); err != nil {
			t.Error(err)
		}
	}
	go func() { settle("a", client.CallbackPending); settle("a", client.CallbackAccepted) }()
	if _, err := s.of(t.Context(), countersign.TypeDeposited, "a"); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.of(ctx, countersign.TypeWithdraw, "a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	settle("b", client.CallbackRefused)
	if err := s.wait(t.Context(), func() bool { return len(s.at) == 2 }); err == nil || !strings.Contains(err.Error(), "1 callbacks ended without being accepted") {
		t.Error(err)
	}
}

func TestFigures(t *testing.T) {
	for want, f := range map[string]Figure{
		"x\t2.5 ms\tp99 3.97, of 4": {"s", "x", "ms", []float64{4, 1, 3, 2}, true},
		"x\t2.5 %\t(1.75–3.25)":     {"s", "x", "%", []float64{4, 1, 3, 2}, false},
		"x\t1234 a second\t":        {"s", "x", "a second", []float64{1234.4}, false},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
