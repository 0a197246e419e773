package main

import (
	"errors"
	"log/slog"

	"countersign/internal/bench"
)

type benchCmd struct{ bench.Config }

// Help is the long help of the subcommand.
func (benchCmd) Help() string {
	return `Starts the service and a merchant on this machine and measures them. Brackets hold the quartiles of the rounds: where those of RSA alone
are far apart, other work ran on the machine, and the share of it means more than rates and times.

system       deposits from the API to settled, as many as go, beside what RSA alone allows on these cores
latency      the time from the API to settled, at a fixed rate
withdrawals  each step of withdrawals at a fixed rate, from the order to the notice of its end
gateway      deposits that a gateway takes, as many as go

The last line says how many cores and how much disk a rate of deposits needs, from what the suite system measured: processor time of both ends, without PostgreSQL's, and
the growth of the service's database. It fails where a callback is lost, never because a machine is slow.`
}

func (c *benchCmd) Run(std streams) error {
	collectSeldom()
	c.Progress = std.progress
	ctx, stop := untilSignal(slog.New(slog.DiscardHandler))
	defer stop()
	report, failed := bench.Run(ctx, c.Config)
	std.progress("")
	if report == nil {
		return failed
	}
	return errors.Join(failed, report.Print(std.out))
}
