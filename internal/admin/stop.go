package admin

import (
	"context"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/outbox"
)

func (s *Server) frozen(c *api.Call, _ api.None, _ api.None) (client.Freeze, error) {
	f, err := s.Lists.Frozen(c.R.Context())
	return freezeOf(f), err
}

func (s *Server) freeze(c *api.Call, _ api.None, in client.NewFreeze) (client.Freeze, error) {
	f, err := s.Outbox.Freeze(c.R.Context(), in.Reason, c.Token.ID, c.Now)
	return freezeOf(f), err
}

// signedFreeze is the freeze as a person signs its end. A row that is not believed is dated by
// each process for itself, so its time is left out.
func signedFreeze(f outbox.Freeze) client.Freeze {
	out := freezeOf(f)
	if out.By == "" {
		out.At = 0
	}
	return out
}

func (s *Server) thawApproval(c *api.Call, _ api.None, _ api.None) (client.Statement, error) {
	f, err := s.Outbox.Frozen(c.R.Context())
	if err != nil {
		return client.Statement{}, err
	}
	out, err := s.Changes.Passkeys().StatementIfRequired(c, journal.ServiceThawed, journal.AboutFreezes, signedFreeze(f))
	if f.At == 0 {
		out.MayNot = "the service is not frozen"
	}
	return out, err
}

// thaw wants the signature of a person of whose role passkeys are required.
func (s *Server) thaw(c *api.Call, _ api.None, in client.Thaw) (client.Freeze, error) {
	ctx := c.R.Context()
	if s.Changes.Passkeys().MustSign(c) {
		f, err := s.Outbox.Frozen(ctx)
		if err != nil || f.At == 0 { // repeating it changes nothing
			return client.Freeze{}, err
		}
		if ctx, err = s.Changes.Passkeys().SignedIfRequired(c, journal.ServiceThawed, journal.AboutFreezes, signedFreeze(f), in.Passkey); err != nil {
			return client.Freeze{}, err
		}
	}
	return client.Freeze{}, s.Outbox.Thaw(ctx, c.Now)
}

func freezeOf(f outbox.Freeze) client.Freeze {
	return client.Freeze{Frozen: f.At != 0, Reason: f.Reason, By: f.By, At: api.TimeOf(f.At)}
}

func (s *Server) blockWithdrawal(c *api.Call, id string, in client.Block) (client.Withdrawal, error) {
	return changeWithdrawal(c, id, in, s.Outbox.BlockWithdrawal)
}

func (s *Server) resumeWithdrawal(c *api.Call, id string, in client.Block) (client.Withdrawal, error) {
	return changeWithdrawal(c, id, in, s.Outbox.ResumeWithdrawal)
}

// changeWithdrawal changes a withdrawal in the name of the call's token.
func changeWithdrawal(c *api.Call, id string, in client.Block, change func(ctx context.Context, id, reason, by string, now db.Millis) (outbox.Withdrawal, error)) (client.Withdrawal, error) {
	w, err := change(c.R.Context(), id, in.Reason, c.Token.ID, c.Now)
	return withdrawalOf(c, w), err
}
