package admin

import (
	"context"
	"time"

	"countersign/internal/store"
)

// maxWait bounds how long a reader of a feed waits; pollEvery is how often it
// looks by itself, because a wake-up between nodes can get lost.
const (
	maxWait       = time.Minute
	pollEvery     = 2 * time.Second
	answerTimeout = 30 * time.Second // to write an answer after the wait
)

func (s *Server) decisions(c *call, q feed, _ none) (Decisions, error) {
	out := Decisions{Decisions: []Decision{}, Next: q.After}
	wake, stop := s.Store.Watch(store.TopicDecisions)
	defer stop()
	err := s.follow(c, q, wake, func(ctx context.Context) (bool, error) {
		list, err := s.Store.Decisions(ctx, q.After, q.Limit)
		for _, d := range list {
			out.Decisions = append(out.Decisions, Decision{d.Seq, withdrawalOf(d.Withdrawal)})
			out.Next = d.Seq
		}
		return len(list) > 0, err
	})
	return out, err
}

func (s *Server) alarms(c *call, q feed, _ none) (Alarms, error) {
	out := Alarms{Alarms: []Alarm{}, Next: q.After}
	err := s.follow(c, q, nil, func(ctx context.Context) (bool, error) {
		list, err := s.Store.Alarms(ctx, q.After, q.Limit)
		for _, a := range list {
			out.Alarms = append(out.Alarms, Alarm{Seq: a.Seq, Merchant: a.Merchant, Kind: a.Kind, Subject: a.Subject, At: timeOf(a.At)})
			out.Next = a.Seq
		}
		return len(list) > 0, err
	})
	return out, err
}

// follow calls read until it finds something, the reader's wait is over, or
// the service stops. The answer is then what there is, which may be nothing.
func (s *Server) follow(c *call, q feed, wake <-chan struct{}, read func(context.Context) (bool, error)) error {
	wait := time.Duration(q.Wait)
	if wait < 0 || wait > maxWait {
		return invalid(Detail{"query.wait", "is not between 0s and 60s"})
	}
	ctx := c.r.Context()
	found, err := read(ctx)
	if found || err != nil || wait == 0 {
		return err
	}
	// The server's own time-outs are for answers that do not wait.
	c.writeWithin(wait + answerTimeout)
	over := time.NewTimer(wait)
	defer over.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-wake:
		case <-poll.C:
		case <-over.C:
			return nil
		case <-s.stopping:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if found, err := read(ctx); found || err != nil {
			return err
		}
	}
}
