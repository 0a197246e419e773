package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/client"
	"countersign/internal/daemon"
	"countersign/internal/relay"
)

type relayCmd struct {
	Run    relayRunCmd    `cmd:"" default:"withargs" help:"Carry rows until a signal ends it. \"countersign relay\" alone does the same."`
	DDL    relayDDLCmd    `cmd:"" name:"ddl" help:"Print the SQL that makes the tables in the core's database. Applying it again changes nothing."`
	Cursor relayCursorCmd `cmd:"" help:"Show how far decisions were written, or resume them after a restore of the service."`
}

// coreFlags select the core's database.
type coreFlags struct {
	From string `required:"" help:"The core's PostgreSQL: postgres://USER@HOST/NAME, several hosts allowed." placeholder:"URL" env:"COUNTERSIGN_RELAY_FROM"`
}

// relayFlags select the service.
type relayFlags struct {
	To    []string `help:"The service's API. Repeat it for other nodes of the service: where one does not answer the next is asked." default:"http://127.0.0.1:8080" placeholder:"URL" env:"COUNTERSIGN_RELAY_TO"`
	Token secret   `help:"API token of the service with role ingest, or core for all but deposits and for --decisions, or @FILE. Default: admin.token of the data directory." placeholder:"TOKEN" env:"COUNTERSIGN_RELAY_TOKEN,COUNTERSIGN_SERVICE_TOKEN,COUNTERSIGN_TOKEN"`
	tlsClient
	Data string `help:"The service's data directory, whose admin.token is used without --token. Default: ./countersign-data." default:"./countersign-data" type:"path" placeholder:"DIR"`
}

func (f relayFlags) nodes(std streams) (list []*client.Service, err error) {
	for _, to := range f.To {
		api, err := connectTo(std, connection{tlsClient: f.tlsClient, API: to, Token: f.Token},
			place{serviceEnd, f.Data}, client.NewService)
		if err != nil {
			return nil, fmt.Errorf("--to and --token: %w", err)
		}
		list = append(list, api)
	}
	if list == nil {
		return nil, errors.New("--to is empty: give the URL of the service's API")
	}
	return list, nil
}

type relayRunCmd struct {
	coreFlags
	relayFlags
	Decisions bool `help:"Write each decision of the service into countersign_decisions of the core's database, once and in order, and into countersign_permits the permits that rows ask for."`
	logFlags
	MetricsListen  string   `help:"Address of /metrics, /healthz and /readyz. Empty: none." placeholder:"ADDR"`
	AllowedHost    []string `help:"Another host that a loopback listener answers to, beside localhost and its address. May be repeated." placeholder:"NAME"`
	InsecureListen bool     `help:"Allow --metrics-listen on an address that other machines reach."`
}

// Help is the long help of the subcommand.
func (relayRunCmd) Help() string {
	return "The wallet core inserts what it books into countersign_outbox, in the transaction that books it: deposits, withdrawals, addresses, and what becomes of a withdrawal. " +
		"This carries the rows to the service, at least once and in order for each merchant, and deletes what the service has acknowledged. Run two: one works, and the other takes over. " +
		"docs/provider/relay.md has the insert in five languages."
}

func (c *relayRunCmd) Run(std streams) error {
	collectSeldom()
	log := c.logger(std.err)
	ctx, stop := untilSignal(log)
	defer stop()
	nodes, err := c.nodes(std)
	if err != nil {
		return err
	}
	r, err := relay.New(relay.Config{From: c.From, Nodes: nodes, Decisions: c.Decisions,
		Build: daemon.BuildInfo(), Log: log})
	if err != nil {
		return err
	}
	parts := []daemon.Part{{Name: "relay", Run: r.Run}}
	about := []any{"decisions", c.Decisions, "version", daemon.Version}
	if c.MetricsListen != "" {
		l, err := daemon.Listen(daemon.ListenConfig{Name: "metrics", Addr: c.MetricsListen, Handler: r.Handler(),
			TLS: daemon.TLS{Hosts: c.AllowedHost, Insecure: c.InsecureListen}, Exposes: "numbers of rows", Most: 100,
			Drain: 5 * time.Second, Log: log})
		if err != nil {
			return err
		}
		parts = append(parts, daemon.Part{Name: "metrics", Run: l.Run})
		about = append(about, "metrics", l.URL())
	}
	log.Info("carrying", about...)
	err = daemon.RunParts(ctx, parts...)
	log.Info("stopped")
	if errors.Is(err, relay.ErrNoTable) {
		return &hintedError{err, []string{`countersign relay ddl | psql URL, as the owner of the core's tables; docs/provider/relay.md says which rights the relay needs.`}}
	}
	return err
}

type relayDDLCmd struct {
	Decisions bool `help:"Print the tables for --decisions too."`
}

func (c *relayDDLCmd) Run(std streams) error {
	_, err := fmt.Fprint(std.out, relay.DDL(c.Decisions))
	return err
}

type relayCursorCmd struct {
	coreFlags
	relayFlags
	NextEpoch bool   `help:"Resume decisions after the service's last restore. The service says where that is." env:"-"`
	Set       *int64 `help:"Resume decisions after this number." placeholder:"N" env:"-"`
}

// cursorMoved is the output of relay cursor.
type cursorMoved struct {
	Decisions int64  `json:"decisions"`
	Was       *int64 `json:"was,omitempty"`
}

func (c *relayCursorCmd) Run(std streams) error {
	if c.NextEpoch && c.Set != nil || c.Set != nil && *c.Set < 0 {
		return errors.New("give --next-epoch, or --set with a number from 0")
	}
	var to func(context.Context, int64) (int64, error)
	switch {
	case c.Set != nil:
		to = func(context.Context, int64) (int64, error) { return *c.Set, nil }
	case c.NextEpoch:
		nodes, err := c.nodes(std)
		if err != nil {
			return err
		}
		to = func(ctx context.Context, was int64) (int64, error) { return relay.NextEpoch(ctx, nodes[0], was) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	was, is, err := relay.MoveCursor(ctx, c.From, to)
	if err != nil {
		return err
	}
	moved := cursorMoved{Decisions: is}
	if to != nil {
		moved.Was = &was
	}
	return printJSON(std.out, moved, "")
}
