package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"
)

// What serve, gateway, demo and bench need as processes: a log, signals and the garbage collector.

// logFormat is the name of the flag of logFlags.LogFormat.
const logFormat = "log-format"

// logsJSON reports whether the parsed command logs as JSON.
func logsJSON(ctx *kong.Context) bool {
	return slices.ContainsFunc(ctx.Flags(), func(f *kong.Flag) bool { return f.Name == logFormat && f.Target.String() == "json" })
}

// asksJSON reports the same for a command line that could not be parsed.
func asksJSON(args []string) bool {
	for i, arg := range args {
		if arg == "--"+logFormat+"=json" || arg == "--"+logFormat && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return os.Getenv("COUNTERSIGN_LOG_FORMAT") == "json"
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. A second signal ends the process at once, for
// an operator who cannot wait.
func untilSignal(log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop()
		if cause := context.Cause(ctx); cause != context.Canceled { // a signal
			log.Info("stopping", "cause", cause.Error())
		}
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
