package admin

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
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
