package main

import (
	"context"
	"fmt"
	"strings"

	"countersign/client"
)

type withdrawalsCmd struct {
	Add     withdrawalsAddCmd     `cmd:"" help:"Ask a merchant to confirm a withdrawal, given as a JSON object."`
	List    withdrawalsListCmd    `cmd:"" help:"List withdrawals, the newest first."`
	Show    withdrawalsShowCmd    `cmd:"" help:"Show one withdrawal."`
	Cancel  withdrawalsCancelCmd  `cmd:"" help:"Withdraw the question while it awaits its answer."`
	Release withdrawalsReleaseCmd `cmd:"" help:"Take the one permit to execute a confirmed withdrawal."`
	Block   withdrawalsBlockCmd   `cmd:"" help:"Block a confirmed withdrawal for ever: it is never released."`
	Waiting withdrawalsWaitingCmd `cmd:"" help:"Say that a released withdrawal waits; each call tells the merchant once more."`
	Outcome withdrawalsOutcomeCmd `cmd:"" help:"Say how a released withdrawal ended."`
}

type withdrawalsAddCmd struct {
	apiFlags
	File string `arg:"" help:"File with the request as the API takes it; - for standard input."`
}

func (c *withdrawalsAddCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	in, err := readJSON[client.NewWithdrawal](c.File, std)
	if err != nil {
		return err
	}
	return std.show(api.CreateWithdrawal(ctx, in))
}

type withdrawalsListCmd struct {
	apiFlags
	Merchant   string                 `help:"Only of this merchant." placeholder:"ID"`
	CallBackID string                 `name:"call-back-id" help:"Only this one; needs --merchant." placeholder:"ID"`
	State      client.WithdrawalState `help:"Only in this state." enum:",awaiting,confirmed,declined,expired,cancelled,released,executed,failed,blocked,lapsed" default:"" placeholder:"STATE"`
	User       string                 `name:"tenant-user-id" help:"Only of this user." placeholder:"ID"`
	Address    string                 `help:"Only to this address, as it was confirmed or else ordered." placeholder:"ADDRESS"`
	TxID       string                 `name:"tx-id" help:"Only the one that this transaction executed." placeholder:"ID"`
	spanFlags
	listFlags
}

func (c *withdrawalsListCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return list(std, c.listFlags, api.AllWithdrawals(ctx, client.WithdrawalFilter{Merchant: c.Merchant, CallBackID: c.CallBackID, State: c.State, TenantUserID: c.User, Address: c.Address, TxID: c.TxID, Since: client.Time(c.Since), Until: client.Time(c.Until)}), "ID|CREATED|STATE|MERCHANT|CALLBACK ID|USER|AMOUNT|SYMBOL|REASON",
		func(v client.Withdrawal) []any {
			return []any{v.ID, v.Created, v.State, v.Merchant, v.CallBackID, v.TenantUserID, detailsOf(v).Amount, detailsOf(v).Symbol, v.Reason}
		})
}

// detailsOf gives what was confirmed, or else what was ordered, if anything.
func detailsOf(w client.Withdrawal) client.Details {
	switch {
	case w.Details != nil:
		return *w.Details
	case w.Ordered != nil:
		return *w.Ordered
	}
	return client.Details{}
}

// withdrawalID is a subcommand about one withdrawal.
type withdrawalID struct {
	apiFlags
	ID string `arg:"" name:"withdrawal" help:"Its id, or MERCHANT/CALLBACKID."`
}

// find gives the id of the withdrawal. No id holds a slash, and no merchant.
func (c withdrawalID) find(ctx context.Context, api *client.Service) (string, error) {
	merchant, callBackID, named := strings.Cut(c.ID, "/")
	if !named {
		return c.ID, nil
	}
	if merchant == "" || callBackID == "" {
		return "", fmt.Errorf("%s is no MERCHANT/CALLBACKID", c.ID)
	}
	p, err := api.Withdrawals(ctx, client.WithdrawalFilter{Merchant: merchant, CallBackID: callBackID}, client.PageOptions{})
	switch {
	case err != nil:
		return "", err
	case len(p.Withdrawals) == 0:
		return "", fmt.Errorf("merchant %s has no withdrawal %s", merchant, callBackID)
	}
	return p.Withdrawals[0].ID, nil
}

// show makes one call about the withdrawal and prints its answer.
func (c withdrawalID) show(ctx context.Context, std streams, api *client.Service, call func(id string) (any, error)) error {
	id, err := c.find(ctx, api)
	if err != nil {
		return err
	}
	return std.show(call(id))
}

type withdrawalsShowCmd struct{ withdrawalID }

func (c *withdrawalsShowCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return c.show(ctx, std, api, func(id string) (any, error) { return api.Withdrawal(ctx, id) })
}

type withdrawalsCancelCmd struct{ withdrawalID }

func (c *withdrawalsCancelCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return c.show(ctx, std, api, func(id string) (any, error) { return api.CancelWithdrawal(ctx, id) })
}

type withdrawalsBlockCmd struct {
	withdrawalID
	Reason string `required:"" help:"Why, for the other operators." placeholder:"TEXT"`
}

func (c *withdrawalsBlockCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return c.show(ctx, std, api, func(id string) (any, error) { return api.BlockWithdrawal(ctx, id, c.Reason) })
}

type withdrawalsReleaseCmd struct {
	withdrawalID
	Claim string `required:"" help:"Names the one execution that the permit is for, not a wallet that could execute twice. The same again gets the same permit with duplicate true; any other gets none, for ever." placeholder:"NAME"`
}

func (c *withdrawalsReleaseCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return c.show(ctx, std, api, func(id string) (any, error) {
		p, err := api.ReleaseWithdrawal(ctx, id, c.Claim)
		if p.Duplicate {
			fmt.Fprintln(std.err, "countersign: warning: this claim was given the permit before; find out whether the funds have moved before you execute")
		}
		return p, err
	})
}

type withdrawalsWaitingCmd struct {
	withdrawalID
	For client.WaitingFor `required:"" enum:"funds,fees" help:"What it waits for: funds, or the fees of its chain." placeholder:"WHAT"`
}

func (c *withdrawalsWaitingCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	return c.show(ctx, std, api, func(id string) (any, error) { return api.ReportWaiting(ctx, id, c.For) })
}

type withdrawalsOutcomeCmd struct {
	withdrawalID
	File string `arg:"" help:"File with the outcome as the API takes it; - for standard input."`
}

func (c *withdrawalsOutcomeCmd) Run(ctx context.Context, std streams, api *client.Service) error {
	in, err := readJSON[client.Outcome](c.File, std)
	if err != nil {
		return err
	}
	return c.show(ctx, std, api, func(id string) (any, error) { return api.ReportOutcome(ctx, id, in) })
}
