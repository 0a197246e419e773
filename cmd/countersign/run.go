package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"countersign/internal/bench"
	"countersign/internal/demo"
)

// logFormat is the name of the flag of logFlags.LogFormat.
const logFormat = "log-format"

// logsJSON reports whether the parsed command logs as JSON.
func logsJSON(ctx *kong.Context) bool {
	return slices.ContainsFunc(ctx.Flags(), func(f *kong.Flag) bool {
		return f.Name == logFormat && f.Target.String() == "json"
	})
}

// asksJSON reports the same for a command line that could not be parsed.
func asksJSON(args []string) bool {
	i := slices.Index(args, "--"+logFormat)
	return slices.Contains(args, "--"+logFormat+"=json") || i >= 0 && slices.Contains(args[i:], "json") ||
		os.Getenv("COUNTERSIGN_LOG_FORMAT") == "json"
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. A second signal ends the process at once, for
// an operator who cannot wait.
func untilSignal(log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); cause != context.Canceled { // a signal
			go log.Info("stopping", "cause", cause.Error()) // it may hang on a reader that is gone
		}
		stop()
	})
	return ctx, stop
}

// collectSeldom lets the heap grow to five times what is in use instead of twice, unless GOGC is set. A daemon's heap
// is a few megabytes, however much waits in its database: collecting it at every doubling would cost several per cent
// of the processor.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

type demoCmd struct {
	Data string `help:"Keep both ends' data in this new directory. Empty: a temporary directory, removed at the end." type:"path" placeholder:"DIR"`
	Bits int    `help:"Size of the RSA pair: 1024, 2048 or 3072." default:"2048" enum:"1024,2048,3072" placeholder:"BITS"`
	Stay bool   `help:"Keep both ends running afterwards and print where they are, until Ctrl-C."`
}

func (c *demoCmd) Run(std streams) error {
	ctx, stop := untilSignal(slog.New(slog.DiscardHandler))
	defer stop()
	err := demo.New(demo.Config{Dir: c.Data, Bits: c.Bits, Stay: c.Stay, Out: std.out, Progress: std.progress}).Run(ctx)
	if errors.Is(err, demo.ErrNotEmpty) {
		return &hintedError{err, []string{"give --data a directory that does not exist yet."}}
	}
	return err
}

type benchCmd struct{ bench.Config }

// Help is the long help of the subcommand.
func (benchCmd) Help() string {
	return `Starts the service and a merchant on this machine and measures them. Brackets hold the quartiles of the rounds: where those of RSA alone
are far apart, other work ran on the machine, and the share of it means more than rates and times.

    system       deposits from the API to settled, as many as go, beside what RSA allows
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
