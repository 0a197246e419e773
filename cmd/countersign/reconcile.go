package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"

	"countersign/internal/daemon"
	"countersign/internal/reconcile"
)

type reconcileCmd struct {
	placeFlags
	storeFlags
	Executed string `help:"JSON lines of every withdrawal for which the wallet core had a permit: merchant, callBackId, claim, permit, tenantUserId, address, chainName, symbol, amount." type:"path" placeholder:"FILE" env:"-"`
	Booked   string `help:"JSON lines of every deposit that the merchant's application has booked: trackingId, symbol, amount; for the service merchant too." type:"path" placeholder:"FILE" env:"-"`
	Merchant string `help:"The merchant of lines that do not name one." placeholder:"ID" env:"-"`
	Settle   bool   `help:"Settle what a restore left open, and end it. Without it, only report." env:"-"`
}

// Help is the long help of the subcommand.
func (reconcileCmd) Help() string {
	return "Compares the database with what the wallet core executed and the merchant booked, and prints every difference, a line each. After a restore, " +
		"--settle takes permits that were given before as given, and decides on the deposits that were held; then the rest goes on. " +
		"With SQLite the daemon must be stopped. The exit status is 1 if something differs that was not settled."
}

func (c *reconcileCmd) Run(std streams) error {
	if c.Executed == "" && c.Booked == "" || c.Gateway && c.Executed != "" {
		return errors.New("give --executed or --booked; for the gateway --booked alone")
	}
	storage, err := c.storage(c.Data)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	debug.SetGCPercent(25) // the index is most of the memory, and stays
	open := 0
	ended, err := daemon.Reconcile(ctx, storage, c.Gateway, reconcile.Config{
		Executed: c.Executed, Booked: c.Booked, Merchant: c.Merchant, Settle: c.Settle,
		Report: func(f reconcile.Finding) error {
			if !f.Settled {
				open++
			}
			return printJSON(std.out, f, "")
		},
	})
	if err != nil {
		return explainStart(fmt.Errorf("reconcile: %w", err))
	}
	switch {
	case ended:
		fmt.Fprintln(std.err, "reconciled: what was held back after the restore goes on")
	case c.Settle:
		fmt.Fprintln(std.err, "nothing was held back: this database was not restored, or is reconciled")
	}
	if open > 0 {
		return fmt.Errorf("%d differences are not settled", open)
	}
	return nil
}
