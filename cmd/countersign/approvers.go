package main

import (
	"context"
	"errors"
	"fmt"

	"countersign/internal/daemon"
)

type noApproversCmd struct {
	placeFlags
	storeFlags
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
	log := std.warnings()
	storage, err := c.storage(c.Data, log)
	if err != nil {
		return err
	}
	ids, err := daemon.EndApprovers(context.Background(), storage, c.Gateway, log)
	if err != nil {
		return explainStart(fmt.Errorf("no-approvers: %w", err))
	}
	return printJSON(std.out, struct {
		Ended []string `json:"ended"` // ids of the tokens
	}{ids}, "  ")
}
