package main

import (
	"context"
	"iter"

	"countersign/client"
)

type withdrawalsCmd struct {
	Add     withdrawalsAddCmd     `cmd:"" help:"Ask a merchant to confirm a withdrawal, given as a JSON object."`
	List    withdrawalsListCmd    `cmd:"" help:"List withdrawals, the newest first, a line of JSON each."`
	Show    withdrawalsShowCmd    `cmd:"" help:"Show one withdrawal."`
	Cancel  withdrawalsCancelCmd  `cmd:"" help:"Withdraw the question while it awaits its answer."`
	Release withdrawalsReleaseCmd `cmd:"" help:"Take the one permit to execute a confirmed withdrawal."`
	Outcome withdrawalsOutcomeCmd `cmd:"" help:"Say how a released withdrawal ended."`
}

type withdrawalsAddCmd struct {
	apiFlags
	File string `arg:"" help:"File with the request as the API takes it; - for standard input."`
}

func (c *withdrawalsAddCmd) Run(std streams) error {
	in, err := readJSON[client.NewWithdrawal](c.File, std)
	if err != nil {
		return err
	}
	return show(std, c.apiFlags, func(ctx context.Context, api *client.Service) (client.AcceptedWithdrawal, error) {
		return api.CreateWithdrawal(ctx, in)
	})
}

type withdrawalsListCmd struct {
	apiFlags
	Merchant   string                 `help:"Only of this merchant." placeholder:"ID"`
	CallBackID string                 `name:"call-back-id" help:"Only this one; needs --merchant." placeholder:"ID"`
	State      client.WithdrawalState `help:"Only in this state." enum:",awaiting,confirmed,declined,expired,cancelled,released,executed,failed" default:"" placeholder:"STATE"`
	Limit      int                    `help:"Most lines." default:"100"`
}

func (c *withdrawalsListCmd) Run(std streams) error {
	return list(std, c.apiFlags, c.Limit, func(ctx context.Context, api *client.Service) iter.Seq2[client.Withdrawal, error] {
		return api.AllWithdrawals(ctx, client.WithdrawalFilter{Merchant: c.Merchant, CallBackID: c.CallBackID, State: c.State})
	})
}

// withdrawalID is a subcommand about one withdrawal.
type withdrawalID struct {
	apiFlags
	ID string `arg:"" help:"The withdrawal."`
}

type withdrawalsShowCmd struct{ withdrawalID }

func (c *withdrawalsShowCmd) Run(std streams) error {
	return show(std, c.apiFlags, func(ctx context.Context, api *client.Service) (client.Withdrawal, error) {
		return api.Withdrawal(ctx, c.ID)
	})
}

type withdrawalsCancelCmd struct{ withdrawalID }

func (c *withdrawalsCancelCmd) Run(std streams) error {
	return show(std, c.apiFlags, func(ctx context.Context, api *client.Service) (client.Withdrawal, error) {
		return api.CancelWithdrawal(ctx, c.ID)
	})
}

type withdrawalsReleaseCmd struct {
	withdrawalID
	Claim string `required:"" help:"Who takes the permit. The same claim again gets the same permit, any other none, for ever."`
}

func (c *withdrawalsReleaseCmd) Run(std streams) error {
	return show(std, c.apiFlags, func(ctx context.Context, api *client.Service) (client.Permit, error) {
		return api.ReleaseWithdrawal(ctx, c.ID, c.Claim)
	})
}

type withdrawalsOutcomeCmd struct {
	withdrawalID
	File string `arg:"" help:"File with the outcome as the API takes it; - for standard input."`
}

func (c *withdrawalsOutcomeCmd) Run(std streams) error {
	in, err := readJSON[client.Outcome](c.File, std)
	if err != nil {
		return err
	}
	return show(std, c.apiFlags, func(ctx context.Context, api *client.Service) (client.AcceptedWithdrawal, error) {
		return api.ReportOutcome(ctx, c.ID, in)
	})
}
