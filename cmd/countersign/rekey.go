package main

import (
	"context"
	"errors"

	"countersign/internal/daemon"
)

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
