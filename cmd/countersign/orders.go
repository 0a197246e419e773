package main

import (
	"context"

	"countersign/client"
)

type ordersCmd struct {
	Add     ordersAddCmd     `cmd:"" help:"Order a withdrawal, given as a JSON object."`
	List    ordersListCmd    `cmd:"" help:"List orders, the newest first."`
	Show    ordersShowCmd    `cmd:"" help:"Show one order."`
	Approve ordersApproveCmd `cmd:"" help:"Approve an order that awaits a person, or will."`
	Decline ordersDeclineCmd `cmd:"" help:"Decline an order; the service is told so when it asks."`
	Cancel  ordersCancelCmd  `cmd:"" help:"Take an order back that is not confirmed yet."`
}

type ordersAddCmd struct {
	apiFlags
	File string `arg:"" help:"File with the order as the API takes it; - for standard input."`
}

func (c *ordersAddCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	in, err := readJSON[client.NewOrder](c.File, std)
	if err != nil {
		return err
	}
	return std.show(api.AddOrder(ctx, in))
}

type ordersListCmd struct {
	apiFlags
	State        client.OrderState `help:"Only in this state." enum:",open,held,approved,confirmed,executed,ended,declined,cancelled,expired,unknown" default:"" placeholder:"STATE"`
	TenantUserID string            `name:"tenant-user-id" help:"Only of this user." placeholder:"ID"`
	Address      string            `help:"Only to this address." placeholder:"ADDRESS"`
	TxID         string            `name:"tx-id" help:"Only the one that this transaction executed." placeholder:"ID"`
	spanFlags
	listFlags
}

func (c *ordersListCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return list(std, c.listFlags, api.AllOrders(ctx, client.OrderFilter{State: c.State, TenantUserID: c.TenantUserID, Address: c.Address,
		TxID: c.TxID, Since: client.Time(c.Since), Until: client.Time(c.Until)}), "CALLBACK ID|CREATED|STATE|USER|AMOUNT|SYMBOL|CHAIN|ADDRESS|REASON",
		func(o client.Order) []any {
			return []any{o.CallBackID, o.Created, o.State, o.TenantUserID, o.Amount, o.Symbol, o.ChainName, o.Address, o.Reason}
		})
}

// orderID is a subcommand about one order.
type orderID struct {
	apiFlags
	ID string `arg:"" name:"callBackId" help:"The order's callBackId."`
}

// orderDecision is one by which an order changes.
type orderDecision struct {
	orderID
	Reason string `help:"Why, for those who look at the order later." placeholder:"TEXT"`
}

type ordersShowCmd struct{ orderID }

func (c *ordersShowCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.Order(ctx, c.ID))
}

type ordersApproveCmd struct{ orderDecision }

func (c *ordersApproveCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.ApproveOrder(ctx, c.ID, c.Reason))
}

type ordersDeclineCmd struct{ orderDecision }

func (c *ordersDeclineCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.DeclineOrder(ctx, c.ID, c.Reason))
}

type ordersCancelCmd struct{ orderDecision }

func (c *ordersCancelCmd) Run(ctx context.Context, std streams, api *client.Gateway) error {
	return std.show(api.CancelOrder(ctx, c.ID, c.Reason))
}
