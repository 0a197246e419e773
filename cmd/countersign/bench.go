package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/bench"
)

type benchCmd struct {
	Only  []string `help:"Measure only the named suites, of: bounds, system, prices, latency, merchants, faults, backlog, claims, rows, ceiling, gateway, memory." placeholder:"SUITE"`
	Quick bool     `help:"Small sizes, a few seconds in all: shows that everything works, measures little."`
	Full  bool     `help:"Large sizes too, up to 10,000,000 settled callbacks and 1,000,000 that wait: takes an hour or more, and some 20 GB of disk."`
	Bits  int      `help:"Size of the merchants' RSA pairs: 1024 or 2048." default:"1024" placeholder:"BITS"`

	Dir   string     `help:"Where the databases are made and removed again, on the disk that is to be measured." type:"path" placeholder:"DIR"`
	DB    string     `name:"db" env:"-" help:"PostgreSQL in place of SQLite. The database must be empty or from an earlier bench." placeholder:"URL"`
	API   string     `name:"api" env:"-" help:"Measure the service that runs there instead of one in this process. It needs --allow-http and --allow-private." placeholder:"URL"`
	Token secretText `env:"-" help:"Its admin token, or @FILE." placeholder:"TOKEN"`
	Inbox string     `help:"The merchant's inbox: memory, or sqlite for one that is durable too." enum:"memory,sqlite" default:"memory"`

	Callbacks   int           `help:"Callbacks in a round; by default what RSA alone does in 1.5 seconds." placeholder:"N"`
	Rounds      int           `help:"Rounds of a rate; default 15." placeholder:"N"`
	Concurrency int           `help:"Exchanges at once with one merchant." default:"64" placeholder:"N"`
	Rate        float64       `help:"Callbacks a second where latency is measured." default:"50" placeholder:"N"`
	For         time.Duration `help:"How long latency is measured; default 30s." placeholder:"TIME"`
	Merchants   []int         `help:"Numbers of merchants; default 1,10,1000,10000." placeholder:"N"`
	Rows        []int         `help:"Numbers of settled callbacks to work beside; default 100000,1000000, with --full 10000000 too." placeholder:"N"`
	Pending     int           `help:"Callbacks that wait while memory and claims are measured; default 100000, with --full 1000000." placeholder:"N"`
	Backlog     int           `help:"Deposits that wait while withdrawals are measured; default 100000, with --full 1000000." placeholder:"N"`

	JSON         bool   `name:"json" help:"Print the report as JSON: figures by their keys, which stay from release to release."`
	Out          string `help:"Write the report as JSON." type:"path" placeholder:"FILE"`
	HTML         string `name:"html" help:"Write the report as one HTML page." type:"path" placeholder:"FILE"`
	CPUProfile   string `name:"cpu-profile" help:"Write a CPU profile of the suite system." type:"path" placeholder:"FILE"`
	AllocProfile string `name:"alloc-profile" help:"Write a profile of allocations, from the start on." type:"path" placeholder:"FILE"`
}

// Help is the long help of the subcommand.
func (benchCmd) Help() string {
	var b strings.Builder
	b.WriteString("Starts the service and a merchant on this machine and measures them. What RSA alone allows is measured in the same run, " +
		"on the same cores, and rates are shown beside it. It fails where a callback is lost, never because a machine is slow. Suites:\n\n")
	for _, s := range bench.Suites() {
		fmt.Fprintf(&b, "  %-10s %s\n", s.Name, s.About)
	}
	return b.String()
}

func (c *benchCmd) Run(std streams) error {
	collectSeldom()
	service, err := c.service()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := bench.New(bench.Config{
		Only: c.Only, Quick: c.Quick, Full: c.Full, Bits: c.Bits, Dir: c.Dir, DB: c.DB, Service: service, Inbox: c.Inbox, Binary: self,
		Callbacks: c.Callbacks, Rounds: c.Rounds, Concurrency: c.Concurrency, Rate: c.Rate, For: c.For, Merchants: c.Merchants, Rows: c.Rows,
		Pending: c.Pending, Backlog: c.Backlog, CPUProfile: c.CPUProfile, AllocProfile: c.AllocProfile, Progress: std.progress,
	})
	if errors.Is(err, bench.ErrNoSuite) {
		return &hintedError{err, []string{"one of " + strings.Join(bench.SuiteNames(), ", ") + "."}}
	}
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(slog.New(slog.DiscardHandler))
	defer stop()
	report, failed := b.Run(ctx)
	if report == nil {
		return failed
	}
	write := report.Print
	if c.JSON {
		write = report.JSON
	}
	return errors.Join(failed, write(std.out), writeReport(c.Out, report.JSON), writeReport(c.HTML, report.HTML))
}

// service is the one to measure, where it runs elsewhere.
func (c *benchCmd) service() (*client.Service, error) {
	if c.API == "" {
		return nil, nil
	}
	if c.Token == "" {
		return nil, errors.New("--api needs --token")
	}
	token, err := c.Token.reveal("token")
	if err != nil {
		return nil, err
	}
	return client.NewService(client.Config{URL: c.API, Token: client.Secret(token)})
}

// writeReport writes one form of a report, where a file was named for it.
func writeReport(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
