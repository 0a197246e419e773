package admin

import (
	"context"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

func (s *Server) decisions(c *api.Call, q feed, _ api.None) (client.Decisions, error) {
	out := client.Decisions{Decisions: []client.Decision{}, Next: q.After}
	wake, stop := s.Outbox.Watch(outbox.TopicDecisions)
	defer stop()
	err := c.Follow(time.Duration(q.Wait), wake, func(ctx context.Context) (bool, error) {
		var list []outbox.FeedDecision
		var err error
		if of := c.Token.BoundTo(); of != nil {
			list, out.Next, err = s.Lists.DecisionsOf(ctx, of, q.After, q.Limit)
		} else {
			list, err = s.Lists.Decisions(ctx, q.After, q.Limit)
		}
		if err == nil {
			err = s.Lists.CheckPage(ctx, outbox.FeedOfDecisions, q.After, db.FirstSeq(list, func(d outbox.FeedDecision) int64 { return d.Seq }))
		}
		if err != nil {
			return false, err
		}
		for _, d := range list {
			out.Decisions = append(out.Decisions, client.Decision{Seq: d.Seq, Withdrawal: withdrawalOf(d.Withdrawal)})
			out.Next = max(out.Next, d.Seq)
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

func (s *Server) alarms(c *api.Call, q alarmFeed, _ api.None) (client.ServiceAlarms, error) {
	out := client.ServiceAlarms{Alarms: []client.ServiceAlarm{}, Next: q.After}
	err := c.Follow(time.Duration(q.Wait), nil, func(ctx context.Context) (bool, error) {
		list, next, err := s.Lists.AlarmsWhere(ctx, db.AlarmFilter{Of: c.Token.BoundTo(), Kind: string(q.Kind), State: db.AlarmState(q.State)}, q.After, q.Limit)
		if err == nil {
			err = s.Lists.CheckPage(ctx, db.FeedOfAlarms, q.After, db.FirstSeq(list, func(a db.Alarm) int64 { return a.Seq }))
		}
		if err != nil {
			return false, err
		}
		for _, a := range list {
			out.Alarms = append(out.Alarms, AlarmOf(a))
		}
		out.Next = max(out.Next, next)
		return len(list) > 0, nil
	})
	return out, err
}

func (s *Server) ackAlarm(c *api.Call, _ api.None, in client.Ack) (client.ServiceAlarm, error) {
	seq, err := c.PathSeq()
	if err != nil {
		return client.ServiceAlarm{}, err
	}
	switch a, err := s.Outbox.Alarm(c.R.Context(), seq); {
	case err != nil:
		return client.ServiceAlarm{}, err
	case !c.Sees(a.Of):
		return client.ServiceAlarm{}, db.ErrNotFound
	}
	a, err := s.Outbox.AckAlarm(c.R.Context(), seq, c.Token.ID, or(in.Name, c.Token.Name), in.Note, c.Now)
	return AlarmOf(a), err
}

// AlarmOf is an alarm as the API shows it.
func AlarmOf(a db.Alarm) client.ServiceAlarm {
	return client.ServiceAlarm{Seq: a.Seq, Merchant: a.Of, Kind: client.AlarmKind(a.Kind), Text: client.AlarmKind(a.Kind).Text(), Subject: a.Subject,
		At: api.TimeOf(a.At), Acked: api.TimeOf(a.Acked), AckedBy: a.AckedBy, AckedName: a.AckedName, AckedNote: a.AckedNote}
}
