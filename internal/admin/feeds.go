package admin

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/outbox"
)

func (s *Server) decisions(c *api.Call, q api.Feed, _ api.None) (client.Decisions, error) {
	list, next, err := api.FeedReader[outbox.FeedDecision]{Name: outbox.FeedOfDecisions, Rows: s.Lists.DB, Seq: func(d outbox.FeedDecision) int64 { return d.Seq },
		Watch: func() (<-chan struct{}, func()) { return s.Outbox.Watch(outbox.TopicDecisions) },
		Read: func(ctx context.Context, after int64, limit int) (list []outbox.FeedDecision, next int64, err error) {
			if of := c.Token.BoundTo(); of != nil {
				return s.Lists.DecisionsOf(ctx, of, after, limit)
			}
			list, err = s.Lists.Decisions(ctx, after, limit)
			return list, 0, err
		}}.Answer(c, q)
	out := client.Decisions{Decisions: []client.Decision{}, Next: next}
	for _, d := range list {
		out.Decisions = append(out.Decisions, client.Decision{Seq: d.Seq, Withdrawal: withdrawalOf(c, d.Withdrawal)})
	}
	return out, err
}
