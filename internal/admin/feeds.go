package admin

import (
	"context"
	"time"

	"countersign/internal/jsonapi"
	"countersign/internal/store"
)

func (s *Server) decisions(c *jsonapi.Call, q feed, _ jsonapi.None) (Decisions, error) {
	out := Decisions{Decisions: []Decision{}, Next: q.After}
	wake, stop := s.Store.Watch(store.TopicDecisions)
	defer stop()
	err := c.Follow(time.Duration(q.Wait), wake, func(ctx context.Context) (bool, error) {
		list, err := s.Store.Decisions(ctx, q.After, q.Limit)
		for _, d := range list {
			out.Decisions = append(out.Decisions, Decision{d.Seq, withdrawalOf(d.Withdrawal)})
			out.Next = d.Seq
		}
		return len(list) > 0, err
	})
	return out, err
}

func (s *Server) alarms(c *jsonapi.Call, q feed, _ jsonapi.None) (Alarms, error) {
	out := Alarms{Alarms: []Alarm{}, Next: q.After}
	err := c.Follow(time.Duration(q.Wait), nil, func(ctx context.Context) (bool, error) {
		list, err := s.Store.Alarms(ctx, q.After, q.Limit)
		for _, a := range list {
			out.Alarms = append(out.Alarms, Alarm{Seq: a.Seq, Merchant: a.Merchant, Kind: a.Kind, Subject: a.Subject, At: jsonapi.TimeOf(a.At)})
			out.Next = a.Seq
		}
		return len(list) > 0, err
	})
	return out, err
}
