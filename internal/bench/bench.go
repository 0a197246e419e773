// Package bench measures a service and its merchants on this machine, and what RSA alone allows there.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"countersign/client"
)

// Config is what New needs. Zero sizes, from Callbacks to Backlog, stand for
// defaults that depend on Quick, unless their comment says otherwise.
type Config struct {
	// Only names the suites to run. Empty: all that can be run.
	Only []string
	// Quick takes small sizes, which show that everything works and measure little.
	Quick bool
	// Bits is the size of the merchants' RSA pairs, 1024 or 2048. Required.
	Bits int

	// Dir gets the databases, in a directory that is removed at the end. Empty: the
	// system's directory for temporary files.
	Dir string
	// DB is the URL of a PostgreSQL database, empty or from an earlier bench. Empty:
	// SQLite.
	DB string
	// Service is a service that runs elsewhere, to be measured in place of one in
	// this process. It must take http and private networks. Nil: none.
	Service *client.Service
	// Inbox is "memory", or "sqlite" for merchants whose inbox is durable. Empty:
	// memory.
	Inbox string
	// Binary is the file of the program countersign, which the suite gateway runs as a
	// process. Required for that suite.
	Binary string
	// SizeFor is the deposits a second of Report.Needs. Required.
	SizeFor float64

	Callbacks   int           // in a round. Zero: what RSA alone does in 1.5 seconds
	Rounds      int           // of a rate
	Concurrency int           // exchanges at once with one merchant, 1 to 1000. Required
	Rate        float64       // callbacks a second where latency is measured, 0.1 to 1000. Required
	For         time.Duration // how long latency is measured
	Merchants   []int         // numbers of merchants
	Backlog     int           // deposits that wait while withdrawals are measured

	// Progress is told what is being done, in one line; empty at the end. Nil: it
	// is not reported.
	Progress func(line string)
}

// Suite is one thing to be measured.
type Suite struct {
	Name  string
	About string
	// remote suites need nothing of the service but its API, so that one elsewhere
	// can be measured.
	remote bool
	run    func(*Bench, context.Context) error
}

// Suites gives all suites in the order in which they run.
func Suites() []Suite {
	return []Suite{
		{"bounds", "what RSA, loopback HTTP and durable writes do alone", true, (*Bench).bounds},
		{"system", "deposits from the API to settled, as many as go", true, (*Bench).system},
		{"latency", "the time from the API to settled, at a fixed rate", true, (*Bench).latency},
		{"merchants", "the same rate with many merchants", false, (*Bench).merchants},
		{"faults", "healthy merchants beside slow and hanging ones, in both lanes", false, (*Bench).faults},
		{"backlog", "withdrawals while deposits wait", false, (*Bench).backlog},
		{"withdrawals", "each step of withdrawals at a fixed rate, from the order to the notice of its end", false, (*Bench).withdrawals},
		{"gateway", "deposits that a gateway takes on one core", false, (*Bench).gateway},
	}
}

// SuiteNames gives the names of all suites.
func SuiteNames() []string {
	var names []string
	for _, s := range Suites() {
		names = append(names, s.Name)
	}
	return names
}

// ErrNoSuite is a name in Config.Only that no suite has.
var ErrNoSuite = errors.New("there is no suite")

// setDefaults fills in the sizes that were not given.
func (c *Config) setDefaults() {
	size := Config{Rounds: 15, For: 30 * time.Second, Merchants: []int{1, 10, 1000, 10_000}, Backlog: 100_000}
	if c.Quick {
		size = Config{Callbacks: 60, Rounds: 2, For: time.Second, Merchants: []int{1, 10}, Backlog: 1500}
	}
	c.Callbacks = cmp.Or(c.Callbacks, size.Callbacks)
	c.Rounds = cmp.Or(c.Rounds, size.Rounds)
	c.For = cmp.Or(c.For, size.For)
	c.Backlog = cmp.Or(c.Backlog, size.Backlog)
	c.Inbox = cmp.Or(c.Inbox, "memory")
	if len(c.Merchants) == 0 {
		c.Merchants = size.Merchants
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
}

// check refuses what cannot be measured.
func (c *Config) check() error {
	switch {
	case c.Bits != 1024 && c.Bits != 2048:
		return errors.New("--bits must be 1024 or 2048")
	case min(c.Callbacks, c.Backlog, slices.Min(c.Merchants)) < 0, c.Rounds < 1, c.For < 0, c.Concurrency < 1:
		return errors.New("--callbacks, --rounds, --for, --merchants, --backlog and --concurrency must be above 0")
	case slices.Min(c.Merchants) == 0:
		return errors.New("--merchants has a 0: give numbers from 1 on")
	case c.Rate < 0.1 || c.Rate > 1000: // the API takes 2000 requests a second
		return errors.New("--rate must be 0.1 to 1000 callbacks a second")
	case c.SizeFor <= 0:
		return errors.New("--size-for must be above 0")
	case c.Concurrency > 1000:
		return errors.New("--concurrency must be at most 1000")
	case c.Service != nil && c.DB != "":
		return errors.New("--api and --db exclude each other: a service that runs has its own database")
	case c.Inbox != "memory" && c.Inbox != "sqlite":
		return errors.New("--inbox must be memory or sqlite")
	}
	for _, name := range c.Only {
		i := slices.IndexFunc(Suites(), func(s Suite) bool { return s.Name == name })
		if i < 0 {
			return fmt.Errorf("%w %q", ErrNoSuite, name)
		}
		if c.Service != nil && !Suites()[i].remote {
			return fmt.Errorf("the suite %s cannot be measured with --api: leave it out of --only", name)
		}
	}
	return nil
}

// Bench is one run. Make it with New.
type Bench struct {
	Config
	dir    string // for databases and logs; removed at the end
	log    *slog.Logger
	load   *load
	report *Report
	made   int // databases and rigs so far: each has a name of its own
	told   sync.Mutex
}

// New checks c and starts nothing. Its errors name the flags of the subcommand.
func New(c Config) (*Bench, error) {
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Bench{Config: c}, nil
}

// Run measures. It fails if a callback is lost, never because a machine is slow. If it
// fails late, the report has what was measured before; nil: nothing was.
func (b *Bench) Run(ctx context.Context) (_ *Report, err error) {
	if b.dir, err = os.MkdirTemp(b.Dir, "countersign-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	// A service logs a line for each attempt; without a log it would seem faster than it
	// is.
	logFile, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	b.log = slog.New(slog.NewTextHandler(logFile, nil))
	if b.load, err = newLoad(b.Bits); err != nil {
		return nil, err
	}
	b.report = newReport(b.Config)
	err = b.runSuites(ctx)
	b.Progress("")
	if len(b.report.Figures) == 0 {
		return nil, err
	}
	b.report.Took = time.Since(b.report.Started).Seconds()
	return b.report, err
}

func (b *Bench) runSuites(ctx context.Context) error {
	for _, s := range Suites() {
		if len(b.Only) > 0 && !slices.Contains(b.Only, s.Name) || b.Service != nil && !s.remote {
			continue
		}
		b.progress("%s: %s", s.Name, s.About)
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("suite %s: %w", s.Name, err)
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		runtime.GC() // the garbage of one suite must not cost the next one time
	}
	return nil
}

// progress tells one line at a time: both lanes are measured at once.
func (b *Bench) progress(format string, args ...any) {
	b.told.Lock()
	defer b.told.Unlock()
	b.Progress(fmt.Sprintf(format, args...))
}

// newDir makes a directory for a database or a rig.
func (b *Bench) newDir(name string) (string, error) {
	b.made++
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.made))
	return dir, os.Mkdir(dir, 0o700)
}
