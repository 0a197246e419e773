package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"countersign/internal/daemon"
)

// What serve, gateway, demo and bench are as processes: their log, what ends
// them, and their garbage collector.

// drainFlags are how a daemon ends.
type drainFlags struct {
	DrainNotice time.Duration `help:"How long the process goes on after SIGTERM with /readyz at 503, so that a load balancer stops calling." default:"0s" placeholder:"TIME"`
}

// changeFlags are how a daemon takes changes.
type changeFlags struct {
	ChangeDelay     time.Duration `help:"How long after its approval a change takes effect; until then it can be rejected." default:"0s" placeholder:"TIME"`
	ChangeApprovals int           `help:"How many persons must approve a change, 1 to 10, all of different origins." default:"1" placeholder:"NUMBER"`
}

// checkChanges refuses what a daemon could not start with.
func (f changeFlags) checkChanges() error {
	if f.ChangeApprovals < 1 || f.ChangeApprovals > daemon.MaxChangeApprovals {
		return fmt.Errorf("--change-approvals is %d: give 1 to %d", f.ChangeApprovals, daemon.MaxChangeApprovals)
	}
	return nil
}

// tlsFlags say how the listeners of a daemon are protected on the network.
type tlsFlags struct {
	TLSCert  string `first:"" name:"tls-cert" help:"Certificate of the listeners in PEM, with those between it and its authority; read again when it changes. TLS 1.2 at least." type:"path" placeholder:"FILE"`
	TLSKey   string `first:"" name:"tls-key" help:"Its key in PEM, for its owner alone." type:"path" placeholder:"FILE"`
	ClientCA string `name:"client-ca" help:"Authorities in PEM: callers of the API need a certificate of one of them, beside the token." type:"path" placeholder:"FILE"`
	hostFlags
	InsecureListen bool   `help:"Allow listeners without TLS that other machines reach: something in front of them does TLS."`
	MetricsListen  string `first:"" help:"Address of /metrics alone, which the API then does not have." placeholder:"ADDR"`
}

func (f tlsFlags) tls() daemon.TLS {
	return daemon.TLS{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.ClientCA, Hosts: f.AllowedHost, Insecure: f.InsecureListen}
}

// hostFlags say by which names listeners on the loopback are called.
type hostFlags struct {
	AllowedHost []string `help:"Name by which a loopback listener may be called, beside localhost and its address: what a proxy here passes on as Host. May be repeated." placeholder:"NAME"`
}

// logFlags are the settings of a daemon's log.
type logFlags struct {
	LogFormat string     `help:"Form of the log lines: text or json." enum:"text,json" default:"text"`
	LogLevel  slog.Level `help:"Least level that is logged: debug, info, warn or error." default:"info"`
}

func (f logFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		return slog.New(daemon.Seldom(slog.NewJSONHandler(w, options)))
	}
	return slog.New(daemon.Seldom(slog.NewTextHandler(w, options)))
}

// logFormat names the flag of logFlags.LogFormat.
const logFormat = "log-format"

// logsJSON reports whether the command that was parsed logs as JSON.
func logsJSON(ctx *kong.Context) bool {
	return slices.ContainsFunc(ctx.Flags(), func(f *kong.Flag) bool { return f.Name == logFormat && f.Target.String() == "json" })
}

// asksJSON reports the same of a command line that could not be parsed.
func asksJSON(args []string) bool {
	for i, arg := range args {
		if arg == "--"+logFormat+"=json" || arg == "--"+logFormat && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return os.Getenv("COUNTERSIGN_LOG_FORMAT") == "json"
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. A
// second one ends the process at once, for the operator who cannot wait.
func untilSignal(log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			cancel() // before the log, which may hang on a reader that is gone
			go log.Info("stopping", "signal", s.String())
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(exitFailed)
		case <-done:
		}
	}()
	var once sync.Once
	return ctx, func() {
		cancel()
		once.Do(func() { close(done) })
	}
}

// collectSeldom lets the heap grow to five times what is in use, not twice,
// unless GOGC says otherwise. A daemon's heap is a few megabytes, however much
// waits in its database; collecting it each time it has doubled would cost several
// per cent of the processor.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
