package admin

import (
	"cmp"
	"context"

	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// neededApprovals is how many persons of the provider must approve a large withdrawal. Together with the token that
// takes its permit, which must have another origin, they are two.
const neededApprovals = 1

// releaseAsked returns what people must agree to before a large withdrawal is released. Whoever added it asked for it,
// and so did by, who ask for its permit.
func releaseAsked(w outbox.Withdrawal, a outbox.Approval, at db.Millis, by ...string) api.Asked {
	return api.Asked{Needed: neededApprovals, By: append(by, a.By), At: at,
		Sees: func(t api.Token) bool { return t.Sees(w.Merchant) }, Otherwise: ", or block it (api blockWithdrawal)"}
}

// approvedFor returns the judge of the approvals of a withdrawal whose permit t asks for, by the tokens as they are
// now.
func approvedFor(t api.Token, now db.Millis) outbox.Judge {
	return func(ctx context.Context, q db.Querier, w outbox.Withdrawal, a outbox.Approval) (string, error) {
		people, err := api.ReadPeople(ctx, q)
		if err != nil {
			return "", err
		}
		agreed := people.Agree(releaseAsked(w, a, now), a.Approvals)
		if !agreed.Enough() {
			return cmp.Or(agreed.Nobody(), agreed.Short()), nil
		}
		if agreed = people.Agree(releaseAsked(w, a, now, t.ID), a.Approvals); !agreed.Enough() {
			return "who approved it may hold the token that asks for the permit; the token that added it gets one", nil
		}
		return "", nil
	}
}

func (s *Server) approveWithdrawal(c *api.Call, id, reason string) error {
	v := c.Vote(reason)
	return s.Outbox.ApproveWithdrawal(c.R.Context(), id, v, func(ctx context.Context, q db.Querier, w outbox.Withdrawal, a outbox.Approval) (bool, error) {
		people, err := api.ReadPeople(ctx, q)
		if err != nil {
			return false, err
		}
		keep, _, err := people.Vote(releaseAsked(w, a, c.Now), a.Approvals, v)
		return keep, err
	})
}
