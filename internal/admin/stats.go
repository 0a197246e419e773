package admin

import (
	"context"
	"net/http"
	"time"

	"countersign/client"
	"countersign/internal/jsonapi"
)

func (s *Server) stats(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.ServiceStats, error) {
	ctx := c.R.Context()
	out := client.ServiceStats{Lanes: []client.LaneStats{}, Withdrawals: map[client.WithdrawalState]int64{}, Breakers: []client.Breaker{}}
	lanes, err := s.Outbox.Stats(ctx)
	if err != nil {
		return out, err
	}
	for _, l := range lanes {
		out.Lanes = append(out.Lanes, client.LaneStats{Lane: client.Lane(l.Lane.String()), State: client.CallbackState(l.State), Count: l.Count, OldestDue: jsonapi.TimeOf(l.OldestDue)})
	}
	counts, err := s.Outbox.WithdrawalCounts(ctx)
	if err != nil {
		return out, err
	}
	for state, n := range counts {
		out.Withdrawals[client.WithdrawalState(state)] = n
	}
	breakers, err := s.Outbox.Breakers(ctx, c.Now)
	if err != nil {
		return out, err
	}
	for _, b := range breakers {
		out.Breakers = append(out.Breakers, client.Breaker{Merchant: b.Merchant, Lane: client.Lane(b.Lane.String()), Failures: b.Failures, OpenUntil: jsonapi.TimeOf(b.OpenUntil)})
	}
	return out, nil
}

func (s *Server) healthz(*jsonapi.Call, jsonapi.None, jsonapi.None) (Health, error) {
	return Health{"ok"}, nil
}

// readyTimeout bounds the check of /readyz.
const readyTimeout = 5 * time.Second

func (s *Server) readyz(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (Health, error) {
	if s.api.Stopping() {
		return Health{}, jsonapi.ErrStopping
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), readyTimeout)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		s.Log.Warn("not ready", "cause", err.Error())
		return Health{}, jsonapi.NewProblem(http.StatusServiceUnavailable, "the service is not ready; its log says why")
	}
	return Health{"ok"}, nil
}
