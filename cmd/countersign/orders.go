package main

import (
	"context"
	"iter"

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

func (c *ordersAddCmd) Run(std streams) error {
	in, err := readJSON[client.NewOrder](c.File, std)
	if err != nil {
		return err
	}
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.AddedOrder, error) {
		return api.AddOrder(ctx, in)
	})
}

type ordersListCmd struct {
	apiFlags
	State        client.OrderState `help:"Only in this state." enum:",open,held,approved,confirmed,executed,ended,declined,cancelled,expired,unknown" default:"" placeholder:"STATE"`
	TenantUserID string            `name:"tenant-user-id" help:"Only of this user." placeholder:"ID"`
	listFlags
}

func (c *ordersListCmd) Run(std streams) error {
	columns := []column[client.Order]{
		{"CALLBACK ID", func(o client.Order) any { return o.CallBackID }},
		{"CREATED", func(o client.Order) any { return o.Created }},
		{"STATE", func(o client.Order) any { return o.State }},
		{"USER", func(o client.Order) any { return o.TenantUserID }},
		{"AMOUNT", func(o client.Order) any { return o.Amount }},
		{"SYMBOL", func(o client.Order) any { return o.Symbol }},
		{"CHAIN", func(o client.Order) any { return o.ChainName }},
		{"ADDRESS", func(o client.Order) any { return o.Address }},
		{"REASON", func(o client.Order) any { return o.Reason }},
	}
	return list(std, c.apiFlags, c.listFlags, columns, client.NewGateway, func(ctx context.Context, api *client.Gateway) iter.Seq2[client.Order, error] {
		return api.AllOrders(ctx, client.OrderFilter{State: c.State, TenantUserID: c.TenantUserID})
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

func (c *ordersShowCmd) Run(std streams) error {
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.Order, error) {
		return api.Order(ctx, c.ID)
	})
}

type ordersApproveCmd struct{ orderDecision }

func (c *ordersApproveCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).ApproveOrder)
}

type ordersDeclineCmd struct{ orderDecision }

func (c *ordersDeclineCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).DeclineOrder)
}

type ordersCancelCmd struct{ orderDecision }

func (c *ordersCancelCmd) Run(std streams) error {
	return c.decide(std, (*client.Gateway).CancelOrder)
}

func (c *orderDecision) decide(std streams, call func(*client.Gateway, context.Context, string, string) (client.Order, error)) error {
	return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.Order, error) {
		return call(api, ctx, c.ID, c.Reason)
	})
}
