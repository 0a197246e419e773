package admin

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
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
	return changeWithdrawal(c, id, in, s.Outbox.BlockWithdrawal)
}

// changeWithdrawal changes a withdrawal in the name of the call's token.
func changeWithdrawal(c *api.Call, id string, in client.Block, change func(ctx context.Context, id, reason, by string, now db.Millis) (outbox.Withdrawal, error)) (client.Withdrawal, error) {
	w, err := change(c.R.Context(), id, in.Reason, c.Token.ID, c.Now)
	return withdrawalOf(c, w), err
}
