package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// deleted is the fault of a merchant that was deleted.
const deleted = "was deleted: nothing is accepted for it any more"

// problemOf is the one place that says what a call for a deleted merchant is answered, and one
// beyond a token's limit.
func problemOf(err error) *client.Problem {
	if over := (*outbox.QuotaError)(nil); errors.As(err, &over) {
		p := api.NewProblem(http.StatusTooManyRequests, over.Error()+"; send fewer, or go on then", api.At("body", "has more new deposits than are left"))
		p.RetryAfter = time.Duration(over.Until-over.Now) * time.Millisecond
		return p
	}
	if errors.Is(err, outbox.ErrMerchantDeleted) {
		return api.NewProblem(http.StatusGone, "the merchant was deleted: its keys are erased, nothing is sent to it, and its settings do not change any more")
	}
	return nil
}

// deleteMerchant deletes a merchant, or proposes it where there is an approver's token.
func (s *Server) deleteMerchant(c *api.Call, id string, _ api.None) (client.Merchant, *client.Proposed, error) {
	ctx := c.R.Context()
	for {
		m, err := s.Outbox.Merchant(ctx, id)
		if err != nil || m.State == outbox.MerchantDeleted {
			return merchantOf(m), nil, err
		}
		if err := s.Outbox.WorkLeft(ctx, id); err != nil {
			return client.Merchant{}, nil, err
		}
		before := m.Texts()
		before["state"] = string(m.State)
		after := map[string]string{"state": string(client.MerchantDeleted)}
		for _, erased := range []string{"requestKey", "responseKey", "apiKey", "callbackApiKey"} {
			if before[erased] != "" {
				after[erased] = ""
			}
		}
		change := &api.Change{Kind: client.ChangeDelete, Merchant: id, Version: m.Version, Before: before, After: after, ProposedBy: c.Token.ID, Proposed: c.Now}
		switch err := s.Changes.Propose(ctx, change, nil); {
		case errors.Is(err, api.ErrStale): // it was changed meanwhile
			continue
		case err != nil:
			return client.Merchant{}, nil, err
		case change.State == client.ChangeWaiting:
			return client.Merchant{}, &client.Proposed{Change: change.Shown()}, nil
		}
		m, err = s.Outbox.Merchant(ctx, id)
		return merchantOf(m), nil, err
	}
}

// applyDelete deletes a merchant. Its other changes end with it: what is sealed in them may
// be keys.
func (s *Server) applyDelete() api.ApplyChange {
	return func(ctx context.Context, c *api.Change, _ []byte, now db.Millis, also func(context.Context, *db.Tx) error) error {
		_, err := s.Outbox.DeleteMerchant(ctx, c.Merchant, c.Version, now, func(ctx context.Context, t *db.Tx) error {
			if err := api.EndChanges(ctx, t, c.Merchant, c.ID, "the merchant was deleted", now); err != nil {
				return err
			}
			return also(ctx, t)
		})
		return staleIf(err)
	}
}
