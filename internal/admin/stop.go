package admin

import (
	"countersign/client"
	"countersign/internal/api"
)

func (s *Server) frozen(c *api.Call, _ api.None, _ api.None) (client.Freeze, error) {
	return s.Lists.Frozen(c.R.Context())
}

func (s *Server) freeze(c *api.Call, _ api.None, in client.NewFreeze) (client.Freeze, error) {
	return s.Outbox.Freeze(c.R.Context(), in.Reason, c.Token.ID, c.Now)
}

func (s *Server) thaw(c *api.Call, _ api.None, _ api.None) (client.Freeze, error) {
	return client.Freeze{}, s.Outbox.Thaw(c.R.Context(), c.Now)
}

func (s *Server) blockWithdrawal(c *api.Call, id string, in client.Block) (client.Withdrawal, error) {
	w, err := s.Outbox.BlockWithdrawal(c.R.Context(), id, in.Reason, c.Token.ID, c.Now)
	return withdrawalOf(c, w), err
}
