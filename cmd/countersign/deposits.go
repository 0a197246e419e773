package main

import (
	"context"
	"iter"

	"countersign/client"
)

type depositsCmd struct {
	List   depositsListCmd   `cmd:"" help:"List deposits, the oldest first."`
	Show   depositsShowCmd   `cmd:"" help:"Show one deposit as it is now."`
	Credit depositsCreditCmd `cmd:"" help:"Let a held deposit count."`
	Reject depositsRejectCmd `cmd:"" help:"Let a held deposit not count."`
}

type depositsListCmd struct {
	apiFlags
	State client.DepositState `help:"Only those that are held, credited or rejected now. Without it all, as they were when they were taken." enum:",held,credited,rejected" default:"" placeholder:"STATE"`
	feedFlags
}

func (c *depositsListCmd) Run(std streams) error {
	columns := []column[client.DepositEntry]{
		{"SEQ", func(d client.DepositEntry) any { return d.Seq }},
		{"TAKEN", func(d client.DepositEntry) any { return d.Taken }},
		{"STATE", func(d client.DepositEntry) any { return d.State }},
		{"USER", func(d client.DepositEntry) any { return d.TenantUserID }},
		{"AMOUNT", func(d client.DepositEntry) any { return d.Amount }},
		{"SYMBOL", func(d client.DepositEntry) any { return d.Symbol }},
		{"CHAIN", func(d client.DepositEntry) any { return d.ChainName }},
		{"TRANSACTION", func(d client.DepositEntry) any { return d.TxID }},
		{"TRACKING ID", func(d client.DepositEntry) any { return d.TrackingID }},
	}
	return list(std, c.apiFlags, c.listFlags, columns, client.NewGateway, func(ctx context.Context, api *client.Gateway) iter.Seq2[client.DepositEntry, error] {
		return entries(c.After, func(o client.FeedOptions) ([]client.DepositEntry, int64, error) {
			p, err := api.DepositsIn(ctx, c.State, o)
			return p.Deposits, p.Next, err
		})
	})
}

// depositSeq is a subcommand about one deposit.
type depositSeq struct {
	apiFlags
	Seq int64 `arg:"" help:"Its number in the feed of deposits."`
}

type depositsShowCmd struct{ depositSeq }

func (c *depositsShowCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.DepositEntry, error) {
		return api.Deposit(ctx, c.Seq)
	})
}

// depositDecision is a subcommand that decides a held deposit.
type depositDecision struct {
	depositSeq
	Reason string `help:"Why, for those who look at the deposit later." placeholder:"TEXT"`
}

func (c *depositDecision) decide(std streams, to func(*client.Gateway, context.Context, int64, string) (client.DepositEntry, error)) error {
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.DepositEntry, error) {
		return to(api, ctx, c.Seq, c.Reason)
	})
}

type depositsCreditCmd struct{ depositDecision }

func (c *depositsCreditCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).CreditDeposit)
}

type depositsRejectCmd struct{ depositDecision }

func (c *depositsRejectCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).RejectDeposit)
}

type eventsCmd struct {
	apiFlags
	feedFlags
}

func (c *eventsCmd) Run(std streams) error {
	columns := []column[client.EventEntry]{
		{"SEQ", func(e client.EventEntry) any { return e.Seq }},
		{"AT", func(e client.EventEntry) any { return e.At }},
		{"KIND", func(e client.EventEntry) any { return e.Kind }},
		{"ABOUT", func(e client.EventEntry) any {
			if e.Deposit != 0 {
				return e.Deposit
			}
			return e.CallBackID
		}},
		{"USER", func(e client.EventEntry) any { return e.TenantUserID }},
		{"BY", func(e client.EventEntry) any { return e.DecidedBy }},
		{"REASON", func(e client.EventEntry) any { return e.Reason }},
	}
	return list(std, c.apiFlags, c.listFlags, columns, client.NewGateway, func(ctx context.Context, api *client.Gateway) iter.Seq2[client.EventEntry, error] {
		return entries(c.After, func(o client.FeedOptions) ([]client.EventEntry, int64, error) {
			p, err := api.Events(ctx, o)
			return p.Events, p.Next, err
		})
	})
}
