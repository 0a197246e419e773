package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/bench"
	"countersign/internal/cli"
)

type benchCmd struct {
	Only  []string `help:"Measure only the named suites, of: bounds, system, latency, merchants, faults, backlog, withdrawals, gateway." placeholder:"SUITE"`
	Quick bool     `help:"Small sizes, a few seconds in all: shows that everything works, measures little."`
	Bits  int      `help:"Size of the merchants' RSA pairs: 1024 or 2048." default:"2048" placeholder:"BITS"`

	Dir   string     `help:"Where the databases are made and removed again, on the disk that is to be measured." type:"path" placeholder:"DIR"`
	DB    string     `name:"db" env:"-" help:"PostgreSQL in place of SQLite. The database must be empty or from an earlier bench." placeholder:"URL"`
	API   string     `name:"api" env:"-" help:"Measure the service that runs there instead of one in this process. It needs --allow-http and --allow-private." placeholder:"URL"`
	Token cli.Secret `env:"-" help:"Its admin token, or @FILE." placeholder:"TOKEN"`
	Inbox string     `help:"The merchant's inbox: memory, or sqlite for one that is durable too." enum:"memory,sqlite" default:"memory"`

	Callbacks   int           `help:"Callbacks in a round; by default what RSA alone does in 1.5 seconds." placeholder:"N"`
	Rounds      int           `help:"Rounds of a rate; default 15." placeholder:"N"`
	Concurrency int           `help:"Exchanges at once with one merchant." default:"64" placeholder:"N"`
	Rate        float64       `help:"Callbacks a second where latency is measured." default:"50" placeholder:"N"`
	For         time.Duration `help:"How long latency is measured; default 30s." placeholder:"TIME"`
	Merchants   []int         `help:"Numbers of merchants; default 1,10,1000,10000." placeholder:"N"`
	Backlog     int           `help:"Deposits that wait while withdrawals are measured; default 100000." placeholder:"N"`

	SizeFor float64 `help:"Deposits a second for which the last line says what they need." default:"100" placeholder:"N"`
	JSON    bool    `name:"json" help:"Print the report as JSON: figures by their keys, which stay from release to release."`
}

// Help is the long help of the subcommand.
func (benchCmd) Help() string {
	var b strings.Builder
	b.WriteString("Starts the service and a merchant on this machine and measures them. What RSA alone allows is measured in the same run, " +
		"on the same cores, and rates are shown beside it. The last line says how many cores and how much disk a rate of deposits needs, from what the suite system measured: " +
		"processor time of both ends, without PostgreSQL's, and the growth of the service's database. It fails where a callback is lost, never because a machine is slow. Suites:\n\n")
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
		Only: c.Only, Quick: c.Quick, Bits: c.Bits, Dir: c.Dir, DB: c.DB, Service: service, Inbox: c.Inbox, Binary: self,
		Callbacks: c.Callbacks, Rounds: c.Rounds, Concurrency: c.Concurrency, Rate: c.Rate, For: c.For, Merchants: c.Merchants,
		Backlog: c.Backlog, SizeFor: c.SizeFor, Progress: std.progress,
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
	return errors.Join(failed, write(std.out))
}

// service is the one to measure, where it runs elsewhere.
func (c *benchCmd) service() (*client.Service, error) {
	if c.API == "" {
		return nil, nil
	}
	if c.Token == "" {
		return nil, errors.New("--api needs --token")
	}
	token, err := c.Token.Reveal("token")
	if err != nil {
		return nil, err
	}
	return client.NewService(client.Config{URL: c.API, Token: client.Secret(token)})
}
