package main

import (
	"context"

	"countersign/client"
)

type depositsCmd struct {
	List   depositsListCmd   `cmd:"" help:"List deposits, the oldest first."`
	Search depositsSearchCmd `cmd:"" help:"Find deposits as they are now, the newest first."`
	Show   depositsShowCmd   `cmd:"" help:"Show one deposit as it is now."`
	Credit depositsCreditCmd `cmd:"" help:"Let a held deposit count."`
	Reject depositsRejectCmd `cmd:"" help:"Let a held deposit not count."`
}

type depositsListCmd struct {
	apiFlags
	State client.DepositState `help:"Only those that are held, credited or rejected now. Without it all, as they were when they were taken." enum:",held,credited,rejected" default:"" placeholder:"STATE"`
	feedFlags
}

func (c *depositsListCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return list(std, c.listFlags, entries(c.After, func(o client.FeedOptions) ([]client.DepositEntry, int64, error) {
		p, err := api.DepositsIn(ctx, c.State, o)
		return p.Deposits, p.Next, err
	}), depositTitles, depositRow)
}

const depositTitles = "SEQ|TAKEN|STATE|USER|AMOUNT|SYMBOL|CHAIN|TRANSACTION|TRACKING ID"

func depositRow(d client.DepositEntry) []any {
	return []any{d.Seq, d.Taken, d.State, d.TenantUserID, d.Amount, d.Symbol, d.ChainName, d.TxID, d.TrackingID}
}

type depositsSearchCmd struct {
	apiFlags
	State      client.DepositState `help:"Only in this state." enum:",taken,held,credited,rejected" default:"" placeholder:"STATE"`
	TrackingID string              `name:"tracking-id" help:"Only this one." placeholder:"ID"`
	TxID       string              `name:"tx-id" help:"Only of this transaction." placeholder:"ID"`
	User       string              `name:"tenant-user-id" help:"Only of this user." placeholder:"ID"`
	Address    string              `help:"Only to this address." placeholder:"ADDRESS"`
	spanFlags
	listFlags
}

func (c *depositsSearchCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	f := client.DepositSearch{State: c.State, TrackingID: c.TrackingID, TxID: c.TxID, TenantUserID: c.User, Address: c.Address,
		Since: client.Time(c.Since), Until: client.Time(c.Until)}
	return list(std, c.listFlags, api.SearchAllDeposits(ctx, f), depositTitles, depositRow)
}

// depositSeq is a subcommand about one deposit.
type depositSeq struct {
	apiFlags
	Seq int64 `arg:"" help:"Its number in the feed of deposits."`
}

type depositsShowCmd struct{ depositSeq }

func (c *depositsShowCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.Deposit(ctx, c.Seq))
}

// depositDecision is a subcommand that decides a held deposit.
type depositDecision struct {
	depositSeq
	Reason string `help:"Why, for those who look at the deposit later." placeholder:"TEXT"`
}

type depositsCreditCmd struct{ depositDecision }

func (c *depositsCreditCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.CreditDeposit(ctx, c.Seq, c.Reason))
}

type depositsRejectCmd struct{ depositDecision }

func (c *depositsRejectCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.RejectDeposit(ctx, c.Seq, c.Reason))
}

type eventsCmd struct {
	apiFlags
	feedFlags
}

func (c *eventsCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return list(std, c.listFlags, entries(c.After, func(o client.FeedOptions) ([]client.EventEntry, int64, error) {
		p, err := api.Events(ctx, o)
		return p.Events, p.Next, err
	}), "SEQ|AT|KIND|ABOUT|USER|BY|REASON",
		func(e client.EventEntry) []any {
			about := any(e.CallBackID)
			if e.Deposit != 0 {
				about = e.Deposit
			}
			return []any{e.Seq, e.At, e.Kind, about, e.TenantUserID, e.DecidedBy, e.Reason}
		})
}
