package main

import (
	"context"
	"errors"

	"countersign/client"
	"countersign/internal/cli"
)

type freezeCmd struct {
	cli.Connection
	Reason string `help:"Why, for the other operators. Required, except with --status." placeholder:"TEXT" env:"-"`
	Status bool   `help:"Only say whether the service is frozen, since when, by whom and why." env:"-"`
}

func (c *freezeCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	if c.Reason == "" && !c.Status {
		return errors.New("give --reason, or --status")
	}
	if c.Status {
		return std.show(api.Frozen(ctx))
	}
	return std.show(api.Freeze(ctx, c.Reason))
}
