package main

import (
	"context"
	"errors"

	"countersign/client"
)

type freezeCmd struct {
	apiFlags
	Reason string `help:"Why, for the other operators. Required, except with --status." placeholder:"TEXT" env:"-"`
	Status bool   `help:"Only say whether the service is frozen, since when, by whom and why." env:"-"`
}

func (c *freezeCmd) Run(std streams) error {
	if c.Reason == "" && !c.Status {
		return errors.New("give --reason, or --status")
	}
	return show(std, c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) (client.Freeze, error) {
		if c.Status {
			return api.Frozen(ctx)
		}
		return api.Freeze(ctx, c.Reason)
	})
}

type thawCmd struct{ apiFlags }

func (c *thawCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) (client.Freeze, error) {
		return api.Thaw(ctx)
	})
}
