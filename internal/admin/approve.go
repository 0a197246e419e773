package admin

import (
	"context"
	"errors"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// neededApprovals is how many persons of the provider must approve a large withdrawal. With the
// token that takes its permit, which must have another origin, they are two.
const neededApprovals = 1

// approvedFor judges the approvals of a withdrawal whose permit a token asks for. Its own do not count.
func approvedFor(t api.Token) outbox.Judge {
	return func(ctx context.Context, q db.Querier, list []db.Approval) (bool, error) {
		quorum, err := api.QuorumOf(ctx, q, neededApprovals, list, api.LastAt(list), func(by api.Token) (string, error) {
			kin, err := api.Kin(ctx, q, by, t)
			if err != nil || !kin {
				return "", err
			}
			return "it has the origin of the token that asks for the permit", nil
		})
		return quorum.Enough(), err
	}
}

func (s *Server) withdrawalApproval(c *api.Call, id string, _ api.None) (out client.MayApprove, err error) {
	w, err := s.Lists.Withdrawal(c.R.Context(), id)
	if err == nil {
		out.MayNot, err = s.whyNotApproved(c, w)
	}
	return out, err
}

// whyNotApproved says why the token of the call may not approve a withdrawal now; empty: it may.
func (s *Server) whyNotApproved(c *api.Call, w outbox.Withdrawal) (string, error) {
	a, err := s.Lists.WithdrawalApproval(c.R.Context(), w)
	switch {
	case err != nil:
		return "", err
	case w.State != outbox.WithdrawalConfirmed:
		return "the withdrawal is " + string(w.State), nil
	case w.Restored:
		return "it is from before a restore: resume it first", nil
	case !a.Needed:
		return "it needs no approval", nil
	}
	for _, given := range a.Given {
		if given.Token == c.Token.ID {
			return "the token has approved it", nil
		}
	}
	return "", nil
}

func (s *Server) approveWithdrawal(c *api.Call, id string, in client.Decide) (client.Withdrawal, error) {
	w, err := s.Outbox.ApproveWithdrawal(c.R.Context(), id, db.Approval{Token: c.Token.ID, Name: c.Token.Name, At: c.Now, Reason: in.Reason}, nil)
	if err != nil {
		return client.Withdrawal{}, err
	}
	return s.shownWithdrawal(c, w)
}

// shownWithdrawal is a withdrawal with who approved its release and who is missing.
func (s *Server) shownWithdrawal(c *api.Call, w outbox.Withdrawal) (client.Withdrawal, error) {
	ctx, out := c.R.Context(), withdrawalOf(c, w)
	a, err := s.Outbox.WithdrawalApproval(ctx, w)
	if errors.Is(err, db.ErrNotFound) { // its merchant was deleted
		return out, nil
	}
	if err != nil || !a.Needed && len(a.Given) == 0 {
		return out, err
	}
	at := c.Now
	if len(a.Given) > 0 {
		at = api.LastAt(a.Given)
	}
	quorum, err := api.QuorumOf(ctx, s.Lists, neededApprovals, a.Given, at, nil)
	if err != nil {
		return out, err
	}
	if out.Approvals = quorum.Shown(); !a.Needed {
		out.Approvals.Missing = 0
		return out, nil
	}
	out.Approvals.Could, err = quorum.Could(ctx, s.Lists, c.Now, func(t api.Token) bool { return t.Sees(w.Merchant) }, nil)
	return out, err
}

// awaiting gives the withdrawals that are confirmed since a time or longer and wait for a person.
func awaiting(o *outbox.Outbox) func(ctx context.Context, since db.Millis, most int) ([]api.Awaited, error) {
	return func(ctx context.Context, since db.Millis, most int) (out []api.Awaited, err error) {
		err = o.EachAwaitingPerson(ctx, since, func(w outbox.Withdrawal, given []db.Approval) (bool, error) {
			quorum, err := api.QuorumOf(ctx, o, neededApprovals, given, api.LastAt(given), nil)
			if err == nil && !quorum.Enough() {
				out = append(out, api.Awaited{Of: w.Merchant, Subject: "withdrawal " + w.ID})
			}
			return len(out) < most, err
		})
		return out, err
	}
}
