package main

import (
	"context"
	"iter"

	"countersign/client"
)

type forwardCmd struct {
	Status forwardStatusCmd `cmd:"" help:"Say how far the feeds were forwarded, what waits, and what failed."`
	List   forwardListCmd   `cmd:"" help:"List the entries that were sent in vain, or with --skipped those that were given up."`
	Retry  forwardRetryCmd  `cmd:"" help:"Send an entry again now, or all that were sent in vain."`
	Skip   forwardSkipCmd   `cmd:"" help:"Give up an entry that the application cannot take."`
}

type forwardStatusCmd struct{ apiFlags }

func (c *forwardStatusCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.Forwarding, error) {
		return api.Forwarding(ctx)
	})
}

type forwardListCmd struct {
	apiFlags
	Skipped bool `help:"Those that a person gave up."`
	listFlags
}

func (c *forwardListCmd) Run(std streams) error {
	columns := []column[client.Forward]{
		{"ID", func(f client.Forward) any { return f.ID }},
		{"CREATED", func(f client.Forward) any { return f.Created }},
		{"ATTEMPTS", func(f client.Forward) any { return f.Attempts }},
		{"LAST ERROR", func(f client.Forward) any { return f.LastError }},
		{"DUE", func(f client.Forward) any { return f.Due }},
		{"GIVEN UP", func(f client.Forward) any { return f.Skipped }},
		{"BY", func(f client.Forward) any { return f.SkippedBy }},
		{"REASON", func(f client.Forward) any { return f.Reason }},
	}
	return list(std, c.apiFlags, c.listFlags, columns, client.NewGateway, func(ctx context.Context, api *client.Gateway) iter.Seq2[client.Forward, error] {
		filter := client.ForwardFilter{}
		if c.Skipped {
			filter.State = "skipped"
		}
		return api.AllForwards(ctx, filter)
	})
}

type forwardRetryCmd struct {
	apiFlags
	ID string `arg:"" optional:"" help:"The entry, such as deposit_17; without it all that were sent in vain."`
}

func (c *forwardRetryCmd) Run(std streams) error {
	if c.ID == "" {
		return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.RetriedForwards, error) {
			return api.RetryForwards(ctx)
		})
	}
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.Forward, error) {
		return api.RetryForward(ctx, c.ID)
	})
}

type forwardSkipCmd struct {
	apiFlags
	ID     string `arg:"" help:"The entry, such as deposit_17."`
	Reason string `required:"" help:"Why, for those who look at it later." placeholder:"TEXT"`
}

func (c *forwardSkipCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.Forward, error) {
		return api.SkipForward(ctx, c.ID, c.Reason)
	})
}
