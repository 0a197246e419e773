package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"countersign/internal/daemon"
)

// placeFlags select the data directory, and with it the end, that a subcommand works on.
type placeFlags struct {
	Data string `help:"Data directory of the end. Default: that of the settings file, or ./countersign-data, for the gateway ./countersign-gateway-data." type:"path" placeholder:"DIR"`
	endFlags
}

// AfterApply finds the end, and sets Data and Gateway.
func (f *placeFlags) AfterApply(std streams) error {
	at, err := findPlace(std, f.end(), f.Data)
	f.Data, f.Gateway = at.dir, at.end == gatewayEnd
	return err
}

// databaseFlags select the database of an end, for commands that work on it without a daemon.
type databaseFlags struct {
	placeFlags
	storeFlags
}

func (f databaseFlags) place(std streams) (p daemon.Place, err error) {
	p.Gateway, p.Log = f.Gateway, std.warnings()
	p.Storage, err = f.storage(f.Data, p.Log)
	return p, err
}

// work calls do with the database and prints what it did.
func work[T any](std streams, f databaseFlags, do func(context.Context, daemon.Place) (T, error)) error {
	p, err := f.place(std)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	did, err := do(ctx, p)
	if err != nil {
		return explainStart(err)
	}
	return printJSON(std.out, did, "  ")
}

type backupCmd struct {
	placeFlags
	To string `help:"The new file. Required." required:"" type:"path" placeholder:"FILE" env:"-"`
}

// Help is the long help of the subcommand.
func (backupCmd) Help() string {
	return "The copy shows the database at one moment. It holds no other file of the data directory: keep master.key somewhere else, " +
		"because the copy is of no use without it. Only restore opens it. PostgreSQL is backed up by its own means: see docs/operator/backup.md."
}

// backedUp is the output of backup.
type backedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	daemon.Held
}

func (c *backupCmd) Run(std streams) error {
	return work(std, databaseFlags{placeFlags: c.placeFlags}, func(ctx context.Context, _ daemon.Place) (b backedUp,
		err error) {
		b.File = c.To
		if b.Held, err = daemon.Backup(ctx, c.Data, c.To); err != nil {
			return b, err
		}
		info, err := os.Stat(c.To)
		if err == nil {
			b.Bytes = info.Size()
		}
		return b, err
	})
}

type restoreCmd struct {
	databaseFlags
	From    string `help:"Backup of a SQLite database. PostgreSQL: put the database back by its own means, then give --db." type:"path" placeholder:"FILE" env:"-"`
	Replace bool   `help:"Replace the database that is there, and keep it under another name." env:"-"`
}

// Help is the long help of the subcommand.
func (restoreCmd) Help() string {
	return "The backup does not know what happened after it was made. So an epoch begins: the service releases nothing, and the gateway " +
		"holds every deposit, until countersign reconcile --settle. No process may use the database meanwhile, and master.key must be in place."
}

func (c *restoreCmd) Run(std streams) error {
	return work(std, c.databaseFlags, func(ctx context.Context, p daemon.Place) (daemon.Restored, error) {
		r, err := p.Restore(ctx, c.From, c.Replace)
		if err == nil {
			fmt.Fprintf(std.err, "countersign: %d orders or withdrawals had not ended in the backup. Now reconcile, step by step: docs/operator/backup.md, Reconcile.\n", r.Undecided)
		}
		return r, err
	})
}

type noApproversCmd struct {
	databaseFlags
	Yes bool `help:"Confirm it. Without this nothing is done." env:"-"`
}

// Help is the long help of the subcommand.
func (noApproversCmd) Help() string {
	return "Once a token of role approver was made, changes of where money goes and of who decides on it wait for an approver, also when there is none left. " +
		"This revokes the tokens of all approvers, and changes take effect at once until the next one is made. With SQLite, stop the daemon first. docs/provider/control.md has the rest."
}

func (c *noApproversCmd) Run(std streams) error {
	if !c.Yes {
		return errors.New("no-approvers: give --yes to revoke the tokens of all approvers and let one person decide alone")
	}
	return work(std, c.databaseFlags, func(ctx context.Context, p daemon.Place) (map[string][]string, error) {
		ids, err := p.EndApprovers(ctx)
		return map[string][]string{"ended": ids}, err
	})
}

type rekeyCmd struct {
	databaseFlags
	NewMasterKey        string `name:"new-master-key" help:"The new master key, 64 hexadecimal digits. Give it in the environment." placeholder:"HEX" hidden:""`
	NewMasterKeyCommand string `name:"new-master-key-command" help:"Program whose output is the new master key. Without it one is made in the data directory." placeholder:"COMMAND"`
	Signing             bool   `help:"Replace the end's own pair of the signed link (docs/operator/keys.md), not the master key: make the next one and print its public part. With --finish it signs from the next start on." env:"-"`
	Finish              bool   `help:"With --signing: put the next pair in place." env:"-"`
}

// Help is the long help of the subcommand.
func (rekeyCmd) Help() string {
	return "Stop every daemon of the database first. Everything is sealed anew in one transaction. If rekey is interrupted, run the same command again. docs/operator/keys.md has the steps."
}

func (c *rekeyCmd) Run(std streams) error {
	return work(std, c.databaseFlags, func(ctx context.Context, p daemon.Place) (any, error) {
		fresh, err := daemon.ConfiguredKey("new-master-key", c.NewMasterKey, c.NewMasterKeyCommand, p.Log)
		switch {
		case err != nil:
			return nil, err
		case c.Signing && fresh != nil:
			return nil, errors.New("--signing replaces the pair of the signed link: leave the new master key out")
		case !c.Signing && c.Finish:
			return nil, errors.New("--finish needs --signing: the master key is replaced in one step")
		case c.Signing:
			return p.RekeySigning(ctx, c.Finish)
		}
		return p.Rekey(ctx, fresh)
	})
}

type migrateCmd struct {
	databaseFlags
	Move bool `help:"Copy the SQLite database of the data directory into that of --db, which is empty, compare both, and rename the file. Stop the daemon first; if it is interrupted, run it again." env:"-"`
}

// Help is the long help of the subcommand.
func (migrateCmd) Help() string {
	return "A daemon does this itself at its start if its role may create tables. With a role that only reads and writes rows, migrate goes first. docs/operator/README.md says which versions can run side by side."
}

func (c *migrateCmd) Run(std streams) error {
	return work(std, c.databaseFlags, func(ctx context.Context, p daemon.Place) (any, error) {
		if c.Move {
			return p.Move(ctx)
		}
		return p.Migrate(ctx)
	})
}
