package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

// The lifecycle of a daemon: parts that run until their context ends and have
// drained when they return, and HTTP listeners before them.

// logFlags are the settings of a daemon's log.
type logFlags struct {
	LogFormat string     `help:"Form of the log lines: text or json." enum:"text,json" default:"text"`
	LogLevel  slog.Level `help:"Least level that is logged: debug, info, warn or error." default:"info"`
}

func (f logFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// untilSignal gives a context that ends at the first SIGINT or SIGTERM. A
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
// unless the environment says otherwise. A daemon holds a few megabytes whatever
// waits in its database, and collecting so small a heap after each few more
// costs several per cent of the processor.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// part is one piece of a daemon.
type part struct {
	name string
	run  func(context.Context) error
}

// runParts runs all parts until ctx ends or one of them fails, then ends the
// others and waits until all have drained.
func runParts(ctx context.Context, parts ...part) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(parts))
	for _, p := range parts {
		go func() {
			err := p.run(ctx)
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", p.name, err)
			}
			cancel() // a daemon without one of its parts must not go on
			results <- err
		}()
	}
	var errs []error
	for range parts {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// listener is an HTTP server on a bound port.
type listener struct {
	name   string
	ln     net.Listener
	server *http.Server
	// beforeStop makes requests that wait answer at once; may be nil.
	beforeStop func()
	drain      time.Duration
}

// listen binds addr now, so that a port that is taken fails the start, and
// serves when run.
func listen(name, addr string, h http.Handler, drain time.Duration, log *slog.Logger) (*listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	return &listener{name: name, ln: ln, drain: drain, server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // handlers that take longer set their own
		WriteTimeout:      2 * time.Minute,  // likewise
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}, nil
}

// url is where the listener is reached from this machine.
func (l *listener) url() string { return "http://" + l.ln.Addr().String() }

// part serves until its context ends, then lets requests under way end within
// the drain time.
func (l *listener) part() part {
	return part{l.name, func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- l.server.Serve(l.ln) }()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		if l.beforeStop != nil {
			l.beforeStop()
		}
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.drain)
		defer cancel()
		if err := l.server.Shutdown(stop); err != nil {
			return errors.Join(fmt.Errorf("requests were cut off: %w", err), l.server.Close())
		}
		return nil
	}}
}
