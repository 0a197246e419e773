package admin

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
)

func (s *Server) stats(c *api.Call, _ api.None, _ api.None) (client.ServiceStats, error) {
	ctx := c.R.Context()
	out := client.ServiceStats{Lanes: []client.LaneStats{}, Withdrawals: map[client.WithdrawalState]int64{}, Breakers: []client.Breaker{}, Failing: []client.FailingMerchant{}}
	numbers, err := s.Lists.Stats(ctx)
	if err != nil {
		return out, err
	}
	for _, l := range numbers.Lanes {
		out.Lanes = append(out.Lanes, client.LaneStats{Lane: client.Lane(l.Lane.String()), State: l.State, Count: l.Count, OldestDue: api.TimeOf(l.OldestDue)})
	}
	for state, n := range numbers.Withdrawals {
		out.Withdrawals[client.WithdrawalState(state)] = n
	}
	breakers, err := s.Lists.Breakers(ctx)
	if err != nil {
		return out, err
	}
	for _, b := range breakers {
		out.Breakers = append(out.Breakers, client.Breaker{Merchant: b.Merchant, Lane: client.Lane(b.Lane.String()), Failures: b.Failures, OpenUntil: api.TimeOf(b.OpenUntil)})
	}
	failing, err := s.Lists.FailingMerchants(ctx)
	if err != nil {
		return out, err
	}
	for _, f := range failing[:min(len(failing), client.MostFailing)] {
		m := client.FailingMerchant{Merchant: f.Merchant, Since: api.TimeOf(f.Since), Reason: f.Reason}
		if f.Facts != (client.Fact{}) {
			m.Facts = &f.Facts
		}
		out.Failing = append(out.Failing, m)
	}
	return out, nil
}

func (s *Server) readyz(c *api.Call, _ api.None, _ api.None) (api.Health, error) {
	is := api.Health{Status: "ready"}
	err := c.Ready(func(ctx context.Context) error {
		if err := s.Outbox.Ready(ctx); err != nil {
			return err
		}
		f, err := s.Outbox.Frozen(ctx)
		is.Frozen = f.At != 0 // it is ready all the same: its API is needed to thaw it
		return err
	})
	return is, err
}
