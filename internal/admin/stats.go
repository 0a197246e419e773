package admin

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/outbox"
)

func (s *Server) stats(c *api.Call, _ api.None, _ api.None) (client.ServiceStats, error) {
	ctx := c.R.Context()
	out, err := s.Lists.Stats(ctx)
	if err != nil {
		return out, err
	}
	failing, err := s.Lists.FailingMerchants(ctx, false)
	out.Failing = api.OrEmpty(failing[:min(len(failing), client.MostFailing)])
	return out, err
}

func (s *Server) isFrozen(ctx context.Context) (bool, error) {
	f, err := s.Outbox.Frozen(ctx)
	return f.At != 0, err
}

func (s *Server) decisions(c *api.Call, q api.Feed, _ api.None) (client.Feed[client.Decision], error) {
	list, next, err := api.FeedReader[outbox.FeedDecision]{Name: outbox.FeedOfDecisions, Rows: s.Lists.DB,
		Seq:   func(d outbox.FeedDecision) int64 { return d.Seq },
		Watch: func() (<-chan struct{}, func()) { return s.Outbox.Watch(outbox.TopicDecisions) },
		Read: func(ctx context.Context, after int64, limit int) (list []outbox.FeedDecision, next int64, err error) {
			if of := c.Token.BoundTo(); of != nil {
				return s.Lists.DecisionsOf(ctx, of, after, limit)
			}
			list, err = s.Lists.Decisions(ctx, after, limit)
			return list, 0, err
		}}.Answer(c, q)
	out := client.Feed[client.Decision]{Items: []client.Decision{}, Next: next}
	for _, d := range list {
		out.Items = append(out.Items, client.Decision{Seq: d.Seq, Withdrawal: withdrawalOf(c, d.Withdrawal)})
	}
	return out, err
}
