package client

import (
	"context"
)

// Freeze stops sending, deciding and releasing for all merchants.
type Freeze struct {
	Frozen bool   `json:"frozen" doc:"true: no callback is sent, no withdrawal is decided or released, and deadlines go on"`
	Reason string `json:"reason,omitempty" doc:"why the service is frozen"`
	By     string `json:"by,omitempty" doc:"id of the token that froze it"`
	At     Time   `json:"at,omitzero" doc:"when it was frozen"`
}

// NewFreeze says why the service is to be frozen.
type NewFreeze struct {
	Reason string `json:"reason" minLength:"1" maxLength:"200" doc:"why, for the other operators, 1 to 200 characters"`
}

// Block says why a withdrawal must never be released, or why it goes on after a restore.
type Block struct {
	Reason string `json:"reason" minLength:"1" maxLength:"200" doc:"why, kept for later readers, 1 to 200 characters"`
}

// Frozen reports whether the service is frozen.
func (s *Service) Frozen(ctx context.Context) (Freeze, error) {
	return Get[Freeze](ctx, s, "/v1/freeze")
}

// Freeze freezes the service. When it returns, nothing is decided or released on any
// node. Repeating it changes nothing and returns the freeze that there is.
func (s *Service) Freeze(ctx context.Context, reason string) (Freeze, error) {
	return Post[Freeze](ctx, s, "/v1/freeze", NewFreeze{reason})
}

// Thaw ends the freeze. Repeating it changes nothing.
func (s *Service) Thaw(ctx context.Context) (Freeze, error) {
	return Post[Freeze](ctx, s, "/v1/thaw", nil)
}

// BlockWithdrawal blocks a confirmed withdrawal: it is never released. One that was
// released already is ErrConflict. Repeating it changes nothing.
func (s *Service) BlockWithdrawal(ctx context.Context, id, reason string) (Withdrawal, error) {
	return Post[Withdrawal](ctx, s, Path("withdrawals", id, "block"), Block{reason})
}
