package main

import (
	"context"
	"iter"

	"countersign/client"
)

type alarmsCmd struct {
	List alarmsListCmd `cmd:"" help:"List alarms, the oldest first."`
}

type alarmsListCmd struct {
	eitherEnd
	feedFlags
}

func (c *alarmsListCmd) Run(std streams) error {
	if c.Gateway {
		columns := []column[client.GatewayAlarm]{
			{"SEQ", func(a client.GatewayAlarm) any { return a.Seq }},
			{"AT", func(a client.GatewayAlarm) any { return a.At }},
			{"KIND", func(a client.GatewayAlarm) any { return a.Kind }},
			{"ABOUT", func(a client.GatewayAlarm) any { return a.Subject }},
			{"WHAT HELPS", func(a client.GatewayAlarm) any { return a.Advice }},
		}
		return list(std, c.apiFlags, c.listFlags, columns, client.NewGateway, func(ctx context.Context, api *client.Gateway) iter.Seq2[client.GatewayAlarm, error] {
			return entries(c.After, func(o client.FeedOptions) ([]client.GatewayAlarm, int64, error) {
				p, err := api.Alarms(ctx, o)
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
		{"WHAT HELPS", func(a client.ServiceAlarm) any { return a.Text }},
	}
	return list(std, c.apiFlags, c.listFlags, columns, client.NewService, func(ctx context.Context, api *client.Service) iter.Seq2[client.ServiceAlarm, error] {
		return entries(c.After, func(o client.FeedOptions) ([]client.ServiceAlarm, int64, error) {
			p, err := api.Alarms(ctx, o)
			return p.Alarms, p.Next, err
		})
	})
}
