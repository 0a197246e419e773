package outbox

import (
	"context"
	"math"
	"strings"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// digest returns a hash of everything in w that a person approves. None of it changes once w is confirmed.
func (w *Withdrawal) digest() string {
	d := w.Details
	return db.Digest(w.ID, w.CallBackID, w.TenantUserID, d.Address, d.ChainName, d.Symbol, d.Amount.String(),
		w.Created, w.Decided)
}

// Large reports whether the amount of w is above its limit.
func (w *Withdrawal) Large(limits client.AmountLimits) bool {
	return w.Details != nil && limits.Exceeded(w.Details.Symbol, w.Details.Amount)
}

// Approval says whether a person must approve a withdrawal, who asked for it, and who has approved it.
type Approval struct {
	Needed    bool
	By        string // the token whose call added the withdrawal; empty: no call did
	Approvals []db.Vote
}

// Judge returns why the approvals do not suffice for a release, or "" if they do.
type Judge func(context.Context, db.Querier, Withdrawal, Approval) (why string, err error)

const addedBySQL = `SELECT added_by FROM callbacks WHERE merchant = $1 AND id = $2`

// approvalOf returns who added a withdrawal and who approved it.
func approvalOf(ctx context.Context, q db.Querier, w *Withdrawal) (a Approval, err error) {
	merchant, rest, err := splitID(w.ID)
	if err != nil {
		return a, err
	}
	if _, err = db.One(ctx, q, addedBySQL, []any{merchant, rest}, &a.By); err == nil {
		a.Approvals, err = db.Votes(ctx, q, aboutWithdrawal(w.ID), w.digest())
	}
	return a, err
}

// awaitsPerson returns why a person must still approve w before it gets a permit. It returns "" if nobody must. w
// must be confirmed and its row locked.
func awaitsPerson(ctx context.Context, t *db.Tx, w *Withdrawal, limits client.AmountLimits,
	approved Judge) (string, error) {
	if !w.Large(limits) {
		return "", nil
	}
	a, err := approvalOf(ctx, t, w)
	if err != nil || approved == nil {
		return "nobody has approved it", err
	}
	return approved(ctx, t, *w, a)
}

// WithdrawalApproval returns whether a person must approve a withdrawal before its release, and who has.
func (o *Outbox) WithdrawalApproval(ctx context.Context, w Withdrawal) (a Approval, err error) {
	if w.Details == nil {
		return a, nil
	}
	m, err := o.Merchant(ctx, w.Merchant)
	if err != nil || len(m.ApproveAbove) == 0 {
		return a, err
	}
	a, err = approvalOf(ctx, o, &w)
	a.Needed = w.State == client.WithdrawalConfirmed && w.Large(m.ApproveAbove)
	return a, err
}

// ApproveWithdrawal stores a person's approval of the release of a confirmed withdrawal above its limit. vote decides
// whether to store it, and returns an error if it does not count. ApproveWithdrawal returns a *ConflictError if the
// withdrawal is in another state or needs no approval.
func (o *Outbox) ApproveWithdrawal(ctx context.Context, id string, a db.Vote,
	vote func(context.Context, db.Querier, Withdrawal, Approval) (keep bool, err error)) error {
	of, _, _ := strings.Cut(id, ".")
	m, err := o.Merchant(ctx, of)
	if err != nil {
		return err
	}
	return o.withWithdrawal(ctx, id, func(ctx context.Context, t *db.Tx, w *Withdrawal) error {
		switch {
		case w.State != client.WithdrawalConfirmed:
			return &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + ": only a confirmed one is approved"}
		case w.Restored:
			return &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
		case !w.Large(m.ApproveAbove):
			return &db.ConflictError{Reason: "the withdrawal needs no approval: its amount is not above the merchant's approveAbove"}
		}
		is, err := approvalOf(ctx, t, w)
		if err != nil {
			return err
		}
		if keep, err := vote(ctx, t, *w, is); err != nil || !keep {
			return err
		}
		if _, err := db.AddVote(ctx, t, aboutWithdrawal(w.ID), w.digest(), a); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.WithdrawalApproved, id, a.At,
			journal.Withdrawal{Merchant: w.Merchant, CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, Details: w.Details,
				Reason: a.Text})
	})
}

// Limits returns the amount limits of the merchants that have any.
func (o *Outbox) Limits(ctx context.Context) (map[string]client.AmountLimits, error) {
	limits := map[string]client.AmountLimits{}
	merchants, err := o.Merchants(ctx, nil, "", math.MaxInt32)
	for _, m := range merchants {
		if len(m.ApproveAbove) > 0 {
			limits[m.ID] = m.ApproveAbove
		}
	}
	return limits, err
}
