package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"countersign/internal/admin"
	"countersign/internal/dispatch"
	"countersign/internal/store"
)

// storeFlags say where a daemon keeps its state.
type storeFlags struct {
	Data      string `help:"Directory for what is made on first start: the database, master.key and admin.token." default:"./countersign-data" type:"path" placeholder:"DIR"`
	DB        string `name:"db" help:"PostgreSQL in place of the embedded SQLite: postgres://USER@HOST/NAME, several hosts allowed." placeholder:"URL"`
	MasterKey string `name:"master-key" help:"64 hexadecimal digits that seal secrets at rest, in place of the file master.key. Meant for the environment; every node of one database needs the same." placeholder:"HEX" hidden:""`
}

// open opens the data directory and the database in it or at --db.
func (f storeFlags) open(ctx context.Context, log *slog.Logger) (dataDir, *store.Store, error) {
	dir, err := openDataDir(f.Data)
	if err != nil {
		return "", nil, err
	}
	key, err := dir.masterKey(f.MasterKey)
	if err != nil {
		return "", nil, err
	}
	url := f.DB
	if url == "" {
		url = dir.file(databaseFile)
	}
	s, err := store.Open(ctx, store.Config{URL: url, Keys: store.NewMasterKey(key), Log: log})
	if err != nil {
		return "", nil, fmt.Errorf("opening the database: %w", err)
	}
	return dir, s, nil
}

type serveCmd struct {
	storeFlags
	logFlags
	Listen          string        `help:"Address of the API. Port 0 picks one, and the first log line names it." default:"127.0.0.1:8080" placeholder:"ADDR"`
	AllowPrivate    bool          `help:"Let every merchant be on a private network or this machine."`
	AllowHTTP       bool          `name:"allow-http" help:"Let merchants' URLs be http."`
	Node            string        `help:"Name of this process in leases and attempts; host and process id if empty." placeholder:"NAME"`
	ExchangeTimeout time.Duration `help:"Longest exchange with a merchant." default:"15s" placeholder:"TIME"`
	Lease           time.Duration `help:"How long a claimed callback belongs to this process; 30s longer than an exchange if 0." default:"0s" placeholder:"TIME"`
	Drain           time.Duration `help:"How long exchanges under way may still take when the process is to stop; as long as an exchange if 0." default:"0s" placeholder:"TIME"`
}

// Help is the long help of the subcommand.
func (serveCmd) Help() string {
	return "The service end: takes deposits and withdrawals over its API, tells merchants, judges their answers, and gives at most one " +
		"permit to execute a withdrawal. Starting needs nothing but the binary."
}

func (c *serveCmd) Run(std streams) (err error) {
	collectSeldom()
	log := c.logger(std.err)
	ctx, stop := untilSignal(log)
	defer stop()
	s, err := c.build(ctx, std, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	log.Info("serving", "api", s.api.url(), "database", s.db.Dialect(), "version", version)
	err = s.run(ctx)
	log.Info("stopped")
	return err
}

// service is the service end, ready to run. Its API is bound to its port.
type service struct {
	dir    dataDir
	db     *store.Store
	clock  *store.Clock
	sender *dispatch.Dispatcher
	api    *listener
}

// run serves until ctx ends. The database is the caller's to close.
func (s *service) run(ctx context.Context) error {
	return runParts(ctx, s.api.part(), part{"dispatch", s.sender.Run}, part{"clock", s.clock.Run})
}

// build opens everything that the settings name, so that what cannot work fails
// here, and starts nothing.
func (c *serveCmd) build(ctx context.Context, std streams, log *slog.Logger) (_ *service, err error) {
	dir, db, err := c.open(ctx, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	clock, err := store.NewClock(ctx, db, log)
	if err != nil {
		return nil, fmt.Errorf("reading the database's clock: %w", err)
	}
	now := clock.Now
	if err := firstToken(ctx, std, dir, db, now()); err != nil {
		return nil, err
	}
	if db.Dialect() == "sqlite" {
		// The lock on the file says that no other process holds leases in it.
		lost, err := db.ReclaimAll(ctx, store.MillisOf(now()))
		if err != nil {
			return nil, fmt.Errorf("giving back leases: %w", err)
		}
		if lost > 0 {
			log.Warn("leases of an earlier process were given back", "callbacks", lost)
		}
	}
	metrics := newMetrics(db, log, now)
	sender, err := dispatch.New(dispatch.Config{
		Outbox: db, Node: c.node(), Now: now, Log: log, Observer: metrics,
		AllowPrivate: c.AllowPrivate, AllowHTTP: c.AllowHTTP,
		ExchangeTimeout: c.ExchangeTimeout, Lease: c.Lease, DrainTimeout: c.Drain,
	})
	if err != nil {
		return nil, err
	}
	api, err := admin.New(admin.Config{
		Store: db, Now: now, Log: log, Version: version, Metrics: metrics.handler(),
		DefaultAllowPrivate: c.AllowPrivate,
		CheckURL: func(rawURL string, allowPrivate bool) error {
			return dispatch.CheckURL(rawURL, dispatch.Policy{AllowHTTP: c.AllowHTTP, AllowPrivate: allowPrivate || c.AllowPrivate})
		},
	})
	if err != nil {
		return nil, err
	}
	l, err := listen("api", c.Listen, api.Handler(), c.ExchangeTimeout, log)
	if err != nil {
		return nil, err
	}
	l.beforeStop = api.Stop
	return &service{dir, db, clock, sender, l}, nil
}

func (c *serveCmd) node() string {
	if c.Node != "" {
		return c.Node
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// firstToken makes the operator's token where the database has no token yet. It
// is in its file before it is in the database: a token that nobody knows would
// lock everybody out.
func firstToken(ctx context.Context, std streams, dir dataDir, db *store.Store, now time.Time) error {
	has, err := db.HasTokens(ctx)
	if err != nil || has {
		return err
	}
	fresh, _ := admin.MintToken()
	secret, err := keepSecret(dir.file(tokenFile), fresh.Reveal())
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	if !admin.IsToken(secret) {
		return fmt.Errorf("admin token: %s does not hold a token", dir.file(tokenFile))
	}
	first := admin.NewStoreToken("first", store.RoleOperator, store.MillisOf(now))
	err = db.CreateToken(ctx, first, admin.HashToken(secret))
	if errors.Is(err, store.ErrConflict) {
		return nil // another node that started now, on the same directory, has kept and shown it
	}
	if err != nil {
		return fmt.Errorf("admin token: %w", err)
	}
	fmt.Fprintf(std.out, "admin token  %s\n             shown once; also in %s\n", secret, dir.file(tokenFile))
	return nil
}
