package main

import (
	"context"
	"iter"

	"countersign/client"
)

type alarmsCmd struct {
	List alarmsListCmd `cmd:"" help:"List alarms, the oldest first."`
	Ack  alarmsAckCmd  `cmd:"" help:"Acknowledge an alarm, so that list --open leaves it out."`
}

type alarmsAckCmd struct {
	eitherEnd
	Seq  int64  `arg:"" help:"Its number in the list."`
	Name string `help:"Who looked into it; the token's name if empty." placeholder:"NAME" env:"-"`
	Note string `help:"What was found or done." placeholder:"TEXT" env:"-"`
}

func (c *alarmsAckCmd) Run(std streams) error {
	ack := client.Ack{Name: c.Name, Note: c.Note}
	if c.Gateway {
		return show(std, c.apiFlags, client.NewGateway, func(ctx context.Context, api *client.Gateway) (client.GatewayAlarm, error) {
			return api.AckAlarm(ctx, c.Seq, ack)
		})
	}
	return show(std, c.apiFlags, client.NewService, func(ctx context.Context, api *client.Service) (client.ServiceAlarm, error) {
		return api.AckAlarm(ctx, c.Seq, ack)
	})
}

type alarmsListCmd struct {
	eitherEnd
	Open bool   `help:"Only those that nobody has acknowledged." xor:"state"`
	Done bool   `help:"Only those that somebody has acknowledged." xor:"state"`
	Kind string `help:"Only of this kind; docs/runbook.md lists them." placeholder:"KIND"`
	feedFlags
}

func (c *alarmsListCmd) filter() client.AlarmFilter {
	f := client.AlarmFilter{Kind: c.Kind}
	switch {
	case c.Open:
		f.State = client.AlarmOpen
	case c.Done:
		f.State = client.AlarmAcked
	}
	return f
}

func (c *alarmsListCmd) Run(std streams) error {
	if c.Gateway {
		columns := []column[client.GatewayAlarm]{
			{"SEQ", func(a client.GatewayAlarm) any { return a.Seq }},
			{"AT", func(a client.GatewayAlarm) any { return a.At }},
			{"KIND", func(a client.GatewayAlarm) any { return a.Kind }},
			{"ABOUT", func(a client.GatewayAlarm) any { return a.Subject }},
			{"ACKNOWLEDGED", func(a client.GatewayAlarm) any { return a.Acked }},
			{"BY", func(a client.GatewayAlarm) any { return a.AckedName }},
			{"WHAT HELPS", func(a client.GatewayAlarm) any { return a.Advice }},
		}
		return list(std, c.apiFlags, c.listFlags, columns, client.NewGateway, func(ctx context.Context, api *client.Gateway) iter.Seq2[client.GatewayAlarm, error] {
			return entries(c.After, func(o client.FeedOptions) ([]client.GatewayAlarm, int64, error) {
				p, err := api.AlarmsWhere(ctx, c.filter(), o)
				return p.Alarms, p.Next, err
			})
		})
	}
	columns := []column[client.ServiceAlarm]{
		{"SEQ", func(a client.ServiceAlarm) any { return a.Seq }},
		{"AT", func(a client.ServiceAlarm) any { return a.At }},
		{"MERCHANT", func(a client.ServiceAlarm) any { return a.Merchant }},
		{"KIND", func(a client.ServiceAlarm) any { return a.Kind }},
		{"ABOUT", func(a client.ServiceAlarm) any { return a.Subject }},
		{"ACKNOWLEDGED", func(a client.ServiceAlarm) any { return a.Acked }},
		{"BY", func(a client.ServiceAlarm) any { return a.AckedName }},
		{"WHAT HELPS", func(a client.ServiceAlarm) any { return a.Text }},
	}
	return list(std, c.apiFlags, c.listFlags, columns, client.NewService, func(ctx context.Context, api *client.Service) iter.Seq2[client.ServiceAlarm, error] {
		return entries(c.After, func(o client.FeedOptions) ([]client.ServiceAlarm, int64, error) {
			p, err := api.AlarmsWhere(ctx, c.filter(), o)
			return p.Alarms, p.Next, err
		})
	})
}
