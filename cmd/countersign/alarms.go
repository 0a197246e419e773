package main

import (
	"context"

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

func (c *alarmsAckCmd) Run(ctx context.Context, std streams, service *client.Service, gateway *client.Gateway) error {
	ack := client.Ack{Name: c.Name, Note: c.Note}
	if c.Gateway {
		return std.show(gateway.AckAlarm(ctx, c.Seq, ack))
	}
	return std.show(service.AckAlarm(ctx, c.Seq, ack))
}

type alarmsListCmd struct {
	eitherEnd
	Open bool             `help:"Only those that nobody has acknowledged." xor:"state"`
	Done bool             `help:"Only those that somebody has acknowledged." xor:"state"`
	Kind client.AlarmKind `help:"Only of this kind; docs/runbook.md lists them." placeholder:"KIND"`
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

func (c *alarmsListCmd) Run(ctx context.Context, std streams, service *client.Service, gateway *client.Gateway) error {
	if c.Gateway {
		return list(std, c.listFlags, entries(c.After, func(o client.FeedOptions) ([]client.GatewayAlarm, int64, error) {
			p, err := gateway.AlarmsWhere(ctx, c.filter(), o)
			return p.Alarms, p.Next, err
		}), "SEQ|AT|KIND|ABOUT|ACKNOWLEDGED|BY|WHAT HELPS",
			func(a client.GatewayAlarm) []any {
				return []any{a.Seq, a.At, a.Kind, a.Subject, a.Acked, a.AckedName, a.Advice}
			})
	}
	return list(std, c.listFlags, entries(c.After, func(o client.FeedOptions) ([]client.ServiceAlarm, int64, error) {
		p, err := service.AlarmsWhere(ctx, c.filter(), o)
		return p.Alarms, p.Next, err
	}), "SEQ|AT|MERCHANT|KIND|ABOUT|ACKNOWLEDGED|BY|WHAT HELPS",
		func(a client.ServiceAlarm) []any {
			return []any{a.Seq, a.At, a.Merchant, a.Kind, a.Subject, a.Acked, a.AckedName, a.Text}
		})
}
