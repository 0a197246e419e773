package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"countersign/internal/daemon"
)

// placeFlags say whose data directory a subcommand works on. run looks for Gateway
// before the command line is parsed; see cli.Either.
type placeFlags struct {
	Data    string `help:"Data directory of the ${end}. Default: ${data}." default:"${data}" type:"path" placeholder:"DIR"`
	Gateway bool   `help:"The gateway's, not the service's." env:"-"`
}

type backupCmd struct {
	placeFlags
	To string `help:"The new file. Required." required:"" type:"path" placeholder:"FILE" env:"-"`
}

// Help is the long help of the subcommand.
func (backupCmd) Help() string {
	return "The copy shows the database at one moment. It holds no other file of the data directory: keep master.key somewhere else, " +
		"because the copy is of no use without it. Only restore opens it. PostgreSQL is backed up by its own means: see docs/backup.md."
}

// backedUp is what backup prints.
type backedUp struct {
	File    string  `json:"file"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	daemon.Held
	Apart []string `json:"keepApart"` // files that a restore needs too
}

func (c *backupCmd) Run(std streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	held, err := daemon.Backup(ctx, c.Data, c.To)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	info, err := os.Stat(c.To)
	if err != nil {
		return err
	}
	apart := []string{daemon.MasterKeyFile, daemon.TokenFile}
	if c.Gateway {
		apart = append(apart, daemon.ForwardSecretFile)
	}
	return printJSON(std.out, backedUp{c.To, info.Size(), time.Since(began).Seconds(), held, apart}, "  ")
}

type restoreCmd struct {
	placeFlags
	storeFlags
	From    string `help:"The backup, of SQLite. Not with --db: put the database back by its own means first, then give its URL." type:"path" placeholder:"FILE" env:"-"`
	Replace bool   `help:"Move the database that is there aside and keep it." env:"-"`
}

// Help is the long help of the subcommand.
func (restoreCmd) Help() string {
	return "The backup does not know what happened after it was made. So an epoch begins: the service releases nothing, and the gateway " +
		"holds every deposit, until countersign reconcile --settle. No process may use the database meanwhile, and master.key must be in place."
}

func (c *restoreCmd) Run(std streams) error {
	log := std.warnings()
	storage, err := c.storage(c.Data, log)
	if err != nil {
		return err
	}
	r, err := daemon.Restore(context.Background(), daemon.RestoreConfig{Storage: storage, Gateway: c.Gateway, From: c.From, Replace: c.Replace, Log: log})
	if err != nil {
		return explainStart(fmt.Errorf("restore: %w", err))
	}
	return printJSON(std.out, r, "  ")
}
