package admin

import (
	"countersign/client"
	"countersign/internal/jsonapi"
	"countersign/internal/outbox"
)

func (s *Server) frozen(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Freeze, error) {
	f, err := s.Lists.Frozen(c.R.Context())
	return freezeOf(f), err
}

func (s *Server) freeze(c *jsonapi.Call, _ jsonapi.None, in client.NewFreeze) (client.Freeze, error) {
	f, err := s.Outbox.Freeze(c.R.Context(), in.Reason, c.Token.ID, c.Now)
	return freezeOf(f), err
}

func (s *Server) thaw(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Freeze, error) {
	return client.Freeze{}, s.Outbox.Thaw(c.R.Context(), c.Now)
}

func freezeOf(f outbox.Freeze) client.Freeze {
	return client.Freeze{Frozen: f.At != 0, Reason: f.Reason, By: f.By, At: jsonapi.TimeOf(f.At)}
}

func (s *Server) blockWithdrawal(c *jsonapi.Call, _ jsonapi.None, in client.Block) (client.Withdrawal, error) {
	id, err := c.PathID()
	if err != nil {
		return client.Withdrawal{}, err
	}
	w, err := s.Outbox.BlockWithdrawal(c.R.Context(), id, in.Reason, c.Token.ID, c.Now)
	return withdrawalOf(w), err
}
