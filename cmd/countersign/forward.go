package main

import (
	"context"

	"countersign/client"
)

type forwardCmd struct {
	Status forwardStatusCmd `cmd:"" help:"Say how far the feeds were forwarded, what waits, and what failed."`
	List   forwardListCmd   `cmd:"" help:"List the entries that were sent in vain, or with --skipped those that were given up."`
	Retry  forwardRetryCmd  `cmd:"" help:"Send an entry again now, or all that were sent in vain."`
	Skip   forwardSkipCmd   `cmd:"" help:"Give up an entry that the application cannot take."`
}

type forwardStatusCmd struct{ apiFlags }

func (c *forwardStatusCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.Forwarding(ctx))
}

type forwardListCmd struct {
	apiFlags
	Skipped bool `help:"Those that a person gave up."`
	listFlags
}

func (c *forwardListCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	filter := client.ForwardFilter{}
	if c.Skipped {
		filter.State = "skipped"
	}
	return list(std, c.listFlags, api.AllForwards(ctx, filter), "ID|CREATED|ATTEMPTS|LAST ERROR|DUE|GIVEN UP|BY|REASON",
		func(f client.Forward) []any {
			return []any{f.ID, f.Created, f.Attempts, f.LastError, f.Due, f.Skipped, f.SkippedBy, f.Reason}
		})
}

type forwardRetryCmd struct {
	apiFlags
	ID string `arg:"" optional:"" help:"The entry, such as deposit_17; without it all that were sent in vain."`
}

func (c *forwardRetryCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	if c.ID == "" {
		return std.show(api.RetryForwards(ctx))
	}
	return std.show(api.RetryForward(ctx, c.ID))
}

type forwardSkipCmd struct {
	apiFlags
	ID     string `arg:"" help:"The entry, such as deposit_17."`
	Reason string `required:"" help:"Why, for those who look at it later." placeholder:"TEXT"`
}

func (c *forwardSkipCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.SkipForward(ctx, c.ID, c.Reason))
}
