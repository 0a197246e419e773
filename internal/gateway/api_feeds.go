package gateway

import (
	"cmp"
	"context"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
)

// after is the number after which a reader of a feed starts: the one given, or the
// one that its cursor has acknowledged.
func (a *server) after(c *api.Call, q readerFeed, feed book.Feed) (int64, error) {
	if q.Reader == "" {
		return int64(q.After), nil
	}
	if c.R.URL.Query().Has("after") {
		return 0, api.Invalid(api.At("query.reader", "and after exclude each other"))
	}
	cursor, err := a.lists.Cursor(c.R.Context(), q.Reader)
	if feed == book.FeedEvents {
		return cursor.Events, err
	}
	return cursor.Deposits, err
}

type depositQuery struct {
	State string `query:"state" enum:"held,credited,rejected" doc:"only deposits that are in this state now, as they are now; the answer then has gaps. Absent: all, as they were when they were taken"`
	readerFeed
}

func (a *server) deposits(c *api.Call, q depositQuery, _ api.None) (client.Deposits, error) {
	after, err := a.after(c, q.readerFeed, book.FeedDeposits)
	if err != nil {
		return client.Deposits{}, err
	}
	out := client.Deposits{Deposits: []client.DepositEntry{}, Next: after}
	err = a.follow(c, q.Wait, book.TopicDeposits, func(ctx context.Context) (bool, error) {
		read := a.lists.Deposits
		if state := book.DepositState(q.State); state != "" {
			read = func(ctx context.Context, after int64, limit int) ([]book.TakenDeposit, error) {
				return a.lists.DepositsIn(ctx, state, after, limit)
			}
		}
		list, err := read(ctx, after, int(q.Limit))
		if err == nil {
			err = a.lists.CheckPage(ctx, book.FeedDeposits.String(), after, db.FirstSeq(list, func(x book.TakenDeposit) int64 { return x.Seq }))
		}
		if err == nil && q.State == "" {
			err = a.lists.CheckKept(ctx, after, list)
		}
		if err != nil {
			return false, err
		}
		for _, d := range list {
			if q.State == "" {
				d = d.AsTaken() // a late reader finds what an early one found
			}
			out.Deposits = append(out.Deposits, depositOf(d))
			out.Next = d.Seq
		}
		return len(list) > 0, nil
	})
	return out, err
}

func (a *server) events(c *api.Call, q readerFeed, _ api.None) (client.Events, error) {
	after, err := a.after(c, q, book.FeedEvents)
	if err != nil {
		return client.Events{}, err
	}
	out := client.Events{Events: []client.EventEntry{}, Next: after}
	err = a.follow(c, q.Wait, book.TopicEvents, func(ctx context.Context) (bool, error) {
		list, err := a.lists.Events(ctx, after, int(q.Limit))
		if err == nil {
			err = a.lists.CheckPage(ctx, book.FeedEvents.String(), after, db.FirstSeq(list, func(x book.Event) int64 { return x.Seq }))
		}
		if err != nil {
			return false, err
		}
		for _, e := range list {
			out.Events = append(out.Events, eventOf(e))
			out.Next = e.Seq
		}
		return len(list) > 0, nil
	})
	return out, err
}

// alarmFeed selects a part of the feed of alarms.
type alarmFeed struct {
	feed
	Kind  client.AlarmKind `query:"kind" doc:"only of this kind"`
	State string           `query:"state" enum:"open,acked" doc:"open: only alarms that nobody has acknowledged; acked: only the others"`
}

func (a *server) alarms(c *api.Call, q alarmFeed, _ api.None) (client.GatewayAlarms, error) {
	out := client.GatewayAlarms{Alarms: []client.GatewayAlarm{}, Next: int64(q.After)}
	err := a.follow(c, q.Wait, book.TopicEvents, func(ctx context.Context) (bool, error) {
		list, next, err := a.lists.AlarmsWhere(ctx, db.AlarmFilter{Kind: string(q.Kind), State: db.AlarmState(q.State)}, int64(q.After), int(q.Limit))
		if err == nil {
			err = a.lists.CheckPage(ctx, db.FeedOfAlarms, int64(q.After), db.FirstSeq(list, func(x db.Alarm) int64 { return x.Seq }))
		}
		if err != nil {
			return false, err
		}
		for _, x := range list {
			out.Alarms = append(out.Alarms, AlarmOf(x))
		}
		out.Next = max(out.Next, next)
		return len(list) > 0, nil
	})
	return out, err
}

func (a *server) ackAlarm(c *api.Call, _ api.None, in client.Ack) (client.GatewayAlarm, error) {
	seq, err := c.PathSeq()
	if err != nil {
		return client.GatewayAlarm{}, err
	}
	x, err := a.book.AckAlarm(c.R.Context(), seq, c.Token.ID, cmp.Or(in.Name, c.Token.Name), in.Note, c.Now)
	return AlarmOf(x), err
}

// AlarmOf is an alarm as the API shows it.
func AlarmOf(x db.Alarm) client.GatewayAlarm {
	return client.GatewayAlarm{Seq: x.Seq, Kind: client.AlarmKind(x.Kind), Subject: x.Subject, Advice: client.AlarmKind(x.Kind).Text(), At: timeOf(x.At),
		Acked: timeOf(x.Acked), AckedBy: x.AckedBy, AckedName: x.AckedName, AckedNote: x.AckedNote}
}

// follow reads a feed that a topic wakes, and waits if there is no entry.
func (a *server) follow(c *api.Call, wait spanParam, topic db.Topic, read func(context.Context) (bool, error)) error {
	wake, stop := a.book.Watch(topic)
	defer stop()
	return c.Follow(time.Duration(wait), wake, read)
}

func (a *server) cursor(c *api.Call, _ api.None, _ api.None) (client.Cursor, error) {
	cursor, err := a.lists.Cursor(c.R.Context(), c.R.PathValue("name"))
	return cursorOf(cursor), err
}

// maxCursorName is the longest name of a reader, in bytes.
const maxCursorName = 100

func (a *server) moveCursor(c *api.Call, _ api.None, in client.CursorMove) (client.Cursor, error) {
	name := c.R.PathValue("name")
	if len(name) > maxCursorName {
		return client.Cursor{}, api.Invalid(api.At("path.name", "is longer than 100 bytes"))
	}
	cursor, err := a.book.MoveCursor(c.R.Context(), name, in.Deposits, in.Events, c.Now)
	return cursorOf(cursor), err
}

func (a *server) nodes(c *api.Call, _ api.None, _ api.None) (client.Nodes, error) {
	return api.Nodes(c, a.lists.Nodes, a.c.Node)
}

func (a *server) stats(c *api.Call, _ api.None, _ api.None) (client.GatewayStats, error) {
	if err := a.refusals.keep(c.R.Context()); err != nil {
		return client.GatewayStats{}, err
	}
	s, err := a.lists.Stats(c.R.Context())
	out := client.GatewayStats{Callbacks: s.Inbox, CallbacksOpen: s.InboxOpen, Deposits: s.Deposits, DepositsHeld: s.DepositsHeld, Events: s.Events,
		Orders: map[client.OrderState]int64{}, Refused: map[client.RefusalReason]int64{}, Forwards: s.Forwards, ForwardOldest: timeOf(s.ForwardOldest)}
	for state, n := range s.Orders {
		out.Orders[client.OrderState(state)] = n
	}
	for reason, n := range s.Refused {
		out.Refused[client.RefusalReason(reason)] = n
	}
	return out, err
}

// Health is what the probes answer.
type Health struct {
	Status string `json:"status" enum:"ok,ready" doc:"ok: the process runs; ready: the gateway can work"`
}

func (a *server) healthz(*api.Call, api.None, api.None) (Health, error) {
	return Health{"ok"}, nil
}

func (a *server) readyz(c *api.Call, _ api.None, _ api.None) (Health, error) {
	return Health{"ready"}, c.Ready(a.book.Ready)
}
