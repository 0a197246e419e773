package main

import (
	"context"
	"log/slog"

	"countersign/internal/daemon"
)

// daemonFlags are what serve and gateway have in common.
type daemonFlags struct {
	storeFlags
	tlsFlags
	alarmFlags
	consoleFlags
	oidcFlags
	retainFlags
	checkFlags
	newDataFlags
	logFlags
	changeFlags
	limitFlags
	drainFlags
}

// common returns what they say to the daemon that is named in a settings file. used is to be called
// when it has opened its database.
func (f *daemonFlags) common(std streams, name, dir string, log *slog.Logger) (c daemon.Common, used func(), err error) {
	if err := f.checkChanges(); err != nil {
		return c, nil, err
	}
	collectSeldom()
	c = daemon.Common{DrainNotice: f.DrainNotice, ChangeDelay: f.ChangeDelay, ChangeApprovals: f.ChangeApprovals,
		MaxBodies: f.bodies(), MaxConnections: f.MaxConnections, NoConsole: f.NoConsole, TLS: f.tls(),
		MetricsListen: f.MetricsListen, Log: log,
		ShowToken: func(_, file string) { log.Info("the first token, of role admin, was made", "file", file) }}
	if c.Alarms, err = f.posting(); err != nil {
		return c, nil, err
	}
	if c.Retain, err = f.keep(); err != nil {
		return c, nil, err
	}
	if c.OIDC, err = f.oidc(); err != nil {
		return c, nil, err
	}
	if used, err = f.begins(std, name, dir, f.DB, log); err != nil {
		return c, nil, err
	}
	c.Storage, err = f.storage(dir, log)
	return c, used, err
}

// run opens a daemon, calls opened and runs it until a signal; with --check it only says what a start
// would find.
func (f *daemonFlags) run(std streams, d interface {
	Check(context.Context) []daemon.Finding
	Open(context.Context) error
	Run(context.Context) error
}, log *slog.Logger, opened func()) error {
	if f.Check {
		return std.checked(d.Check(context.Background()))
	}
	ctx, stop := untilSignal(log)
	defer stop()
	if err := d.Open(ctx); err != nil {
		return explainStart(err)
	}
	opened()
	err := d.Run(ctx)
	log.Info("stopped")
	return err
}
