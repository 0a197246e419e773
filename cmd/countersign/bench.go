package main

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
	"strings"
	"time"
)

type benchCmd struct {
	Only  []string `help:"Measure these alone, of: bounds, system, latency, merchants, faults, backlog, claims, rows, memory." placeholder:"SUITE"`
	Quick bool     `help:"Small sizes, a few seconds in all: shows that everything works, measures little."`
	Full  bool     `help:"Large sizes too, up to 10,000,000 settled callbacks and 1,000,000 that wait: takes an hour or more, and some 20 GB of disk."`
	Bits  int      `help:"Size of the merchants' RSA pairs: 1024 or 2048." default:"1024" placeholder:"BITS"`

	Dir   string     `help:"Where the databases are made and removed again, on the disk that is to be measured." type:"path" placeholder:"DIR"`
	DB    string     `name:"db" env:"-" help:"PostgreSQL in place of SQLite. The database must be empty or from an earlier bench." placeholder:"URL"`
	API   string     `name:"api" env:"-" help:"Measure the service that runs there instead of one in this process. It needs --allow-http and --allow-private." placeholder:"URL"`
	Token secretText `env:"-" help:"Its operator token, or @FILE." placeholder:"TOKEN"`
	Inbox string     `help:"The merchant's inbox: memory, or sqlite for one that is durable too." enum:"memory,sqlite" default:"memory"`

	Callbacks   int           `help:"Callbacks in a round; by default what the machine does in about six seconds." placeholder:"N"`
	Rounds      int           `help:"Rounds of a rate; default 5." placeholder:"N"`
	Concurrency int           `help:"Exchanges at once with one merchant." default:"64" placeholder:"N"`
	Rate        float64       `help:"Callbacks a second where latency is measured." default:"50" placeholder:"N"`
	For         time.Duration `help:"How long latency is measured; default 30s." placeholder:"TIME"`
	Merchants   []int         `help:"Numbers of merchants; default 1,10,1000,10000." placeholder:"N"`
	Rows        []int         `help:"Numbers of settled callbacks to work beside; default 100000,1000000, with --full 10000000 too." placeholder:"N"`
	Pending     int           `help:"Callbacks that wait while memory and claims are measured; default 100000, with --full 1000000." placeholder:"N"`
	Backlog     int           `help:"Deposits that wait while withdrawals are measured; default 100000, with --full 1000000." placeholder:"N"`

	Out          string `help:"Write the report as JSON." type:"path" placeholder:"FILE"`
	HTML         string `name:"html" help:"Write the report as one HTML page." type:"path" placeholder:"FILE"`
	CPUProfile   string `name:"cpu-profile" help:"Write a CPU profile of the suite system." type:"path" placeholder:"FILE"`
	AllocProfile string `name:"alloc-profile" help:"Write a profile of allocations, from the start on." type:"path" placeholder:"FILE"`
}

// benchSuite is one thing to be measured.
type benchSuite struct {
	name  string
	about string
	// remote is whether a service elsewhere can be measured so.
	remote bool
	run    func(*bench, context.Context) error
}

// benchSuites are in the order in which they run.
var benchSuites = []benchSuite{
	{"bounds", "what RSA, loopback HTTP and durable writes do alone", true, (*bench).bounds},
	{"system", "deposits from the API to settled, as many as go", true, (*bench).system},
	{"latency", "the time from the API to settled, at a fixed rate", true, (*bench).latency},
	{"merchants", "the same rate with many merchants", false, (*bench).merchants},
	{"faults", "one merchant dead and one slow among a hundred", false, (*bench).faults},
	{"backlog", "withdrawals while deposits wait", false, (*bench).backlog},
	{"claims", "claiming with many waiting", false, (*bench).claims},
	{"rows", "claiming and settling beside what is settled", false, (*bench).rows},
	{"memory", "the service's memory with many waiting", false, (*bench).memory},
}

func benchSuiteNames() []string {
	names := make([]string, len(benchSuites))
	for i, s := range benchSuites {
		names[i] = s.name
	}
	return names
}

// Help is the long help of the subcommand.
func (benchCmd) Help() string {
	var b strings.Builder
	b.WriteString("Starts the service and a merchant on this machine and measures them. What RSA alone allows is measured in the same run, " +
		"on the same cores, and rates are shown beside it. It fails where a callback is lost, never because a machine is slow. Suites:\n\n")
	for _, s := range benchSuites {
		fmt.Fprintf(&b, "  %-10s %s\n", s.name, s.about)
	}
	return b.String()
}

// sizes are the defaults of what was not said.
func (c *benchCmd) sizes() benchCmd {
	switch {
	case c.Quick:
		return benchCmd{Callbacks: 60, Rounds: 2, For: time.Second, Merchants: []int{1, 10}, Rows: []int{2000}, Pending: 2000, Backlog: 1500}
	case c.Full:
		return benchCmd{Rounds: 5, For: time.Minute, Merchants: []int{1, 10, 1000, 10_000}, Rows: []int{100_000, 1_000_000, 10_000_000},
			Pending: 1_000_000, Backlog: 1_000_000}
	}
	return benchCmd{Rounds: 5, For: 30 * time.Second, Merchants: []int{1, 10, 1000, 10_000}, Rows: []int{100_000, 1_000_000},
		Pending: 100_000, Backlog: 100_000}
}

// complete fills in what was not said and refuses what cannot be.
func (c *benchCmd) complete() error {
	size := c.sizes()
	c.Callbacks = cmp.Or(c.Callbacks, size.Callbacks)
	c.Rounds = cmp.Or(c.Rounds, size.Rounds)
	c.For = cmp.Or(c.For, size.For)
	c.Pending = cmp.Or(c.Pending, size.Pending)
	c.Backlog = cmp.Or(c.Backlog, size.Backlog)
	if len(c.Merchants) == 0 {
		c.Merchants = size.Merchants
	}
	if len(c.Rows) == 0 {
		c.Rows = size.Rows
	}
	slices.Sort(c.Rows)
	switch {
	case c.Quick && c.Full:
		return errors.New("--quick and --full: one of them")
	case c.Bits != 1024 && c.Bits != 2048:
		return errors.New("--bits is 1024 or 2048")
	case min(c.Callbacks, c.Pending, c.Backlog, slices.Min(c.Merchants), slices.Min(c.Rows)) < 0, c.Rounds < 1, c.For < 0, c.Concurrency < 1:
		return errors.New("numbers of things to measure are above 0")
	case slices.Min(c.Merchants) == 0:
		return errors.New("--merchants has a 0: without a merchant there is nothing to measure")
	case c.Rate < 0.1 || c.Rate > 1000: // the API takes 2000 requests a second
		return errors.New("--rate is 0.1 to 1000 a second")
	case c.Concurrency > 1000:
		return errors.New("--concurrency is at most 1000")
	case c.API != "" && c.DB != "":
		return errors.New("--api and --db: a service that runs has its database")
	case c.API != "" && c.Token == "":
		return errors.New("--api needs --token")
	}
	for _, name := range c.Only {
		if !slices.Contains(benchSuiteNames(), name) {
			return &hintedError{fmt.Errorf("there is no suite %q", name), []string{"one of " + strings.Join(benchSuiteNames(), ", ") + "."}}
		}
	}
	return nil
}

// bench is one run.
type bench struct {
	benchCmd
	std    streams
	dir    string // for databases and logs; removed at the end
	log    *slog.Logger
	load   *benchLoad
	report benchReport
	rigs   int // numbers what is made, so that names are new
}

func (c *benchCmd) Run(std streams) (err error) {
	collectSeldom()
	if err := c.complete(); err != nil {
		return err
	}
	b := &bench{benchCmd: *c, std: std}
	if b.dir, err = os.MkdirTemp(c.Dir, "countersign-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	// A service logs a line an attempt; leaving that out would flatter it.
	logFile, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	b.log = slog.New(slog.NewTextHandler(logFile, nil))
	ctx, stop := untilSignal(b.log)
	defer stop()

	if b.load, err = newBenchLoad(c.Bits); err != nil {
		return err
	}
	b.report = newBenchReport(c)
	failed := b.runSuites(ctx)
	b.progress("")
	if len(b.report.Figures) == 0 {
		return failed
	}
	// What was measured before a suite failed may have taken an hour.
	b.report.Took = time.Since(b.report.Started).Seconds()
	return errors.Join(failed, b.report.print(std.out), b.report.write(c.Out, c.HTML))
}

func (b *bench) runSuites(ctx context.Context) error {
	for _, s := range benchSuites {
		if len(b.Only) > 0 && !slices.Contains(b.Only, s.name) {
			continue
		}
		if b.API != "" && !s.remote {
			if len(b.Only) > 0 {
				return fmt.Errorf("suite %s cannot be measured through --api", s.name)
			}
			continue
		}
		b.progress("%s: %s", s.name, s.about)
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("suite %s: %w", s.name, err)
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		runtime.GC() // what a suite leaves behind is not the next one's
	}
	if b.AllocProfile != "" {
		return writeAllocProfile(b.AllocProfile)
	}
	return nil
}

// progress shows what is being done, on a terminal only; the empty text clears
// the line.
func (b *bench) progress(format string, args ...any) {
	f, ok := b.std.err.(*os.File)
	if !ok {
		return
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(f, "\r\x1b[K"+format, args...)
}
