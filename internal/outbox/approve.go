package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// approveAbove gives the amounts above which a person must approve a withdrawal. Most merchants
// have none, and their settings are not read for it.
func (k *keptMerchant) approveAbove() (client.AmountLimits, error) {
	if k.Forged || !strings.Contains(k.settings, "approveAbove") {
		return nil, nil // nothing of a forged row is released
	}
	var s struct {
		ApproveAbove client.AmountLimits `json:"approveAbove"`
	}
	if err := json.Unmarshal([]byte(k.settings), &s); err != nil {
		return nil, fmt.Errorf("settings of merchant %s: %w", k.ID, err)
	}
	return s.ApproveAbove, nil
}

// digest is of all that is approved of w, which does not change once it is confirmed.
func (w *Withdrawal) digest() string {
	d := w.Details
	return db.Digest(w.ID, w.CallBackID, w.TenantUserID, d.Address, d.ChainName, d.Symbol, d.Amount.String(), w.Created, w.Decided)
}

// large reports whether the amount of w is above its limit.
func (w *Withdrawal) large(limits client.AmountLimits) bool {
	return w.Details != nil && limits.Exceeded(w.Details.Symbol, w.Details.Amount)
}

// Judge says whether approvals suffice.
type Judge func(context.Context, db.Querier, []db.Approval) (bool, error)

// awaitsPerson reports whether a person must approve w, which is confirmed and locked, before it
// gets a permit.
func awaitsPerson(ctx context.Context, t *db.Tx, w *Withdrawal, limits client.AmountLimits, approved Judge) (bool, error) {
	if !w.large(limits) {
		return false, nil
	}
	list, err := db.Approvals(ctx, t, aboutWithdrawal(w.ID), w.digest())
	if err != nil || len(list) == 0 || approved == nil {
		return true, err
	}
	enough, err := approved(ctx, t, list)
	return !enough, err
}

// Approval of a withdrawal: whether a person must approve it, and who has.
type Approval struct {
	Needed bool
	Given  []db.Approval
}

// WithdrawalApproval says whether a person must approve a withdrawal before it is released, and
// who has.
func (o *Outbox) WithdrawalApproval(ctx context.Context, w Withdrawal) (a Approval, err error) {
	if w.Details == nil {
		return a, nil
	}
	m, err := o.Merchant(ctx, w.Merchant)
	if err != nil {
		return a, err
	}
	if a.Needed = w.State == WithdrawalConfirmed && w.large(m.ApproveAbove); a.Needed || len(m.ApproveAbove) > 0 {
		a.Given, err = db.Approvals(ctx, o, aboutWithdrawal(w.ID), w.digest())
	}
	return a, err
}

// ApproveWithdrawal records that a person approves the release of a confirmed withdrawal whose
// amount is above its limit. Repeating it changes nothing. refuse says whether the approval would
// not count. Any other state, and one that needs no approval, is a *ConflictError.
func (o *Outbox) ApproveWithdrawal(ctx context.Context, id string, a db.Approval, refuse func(context.Context, db.Querier, []db.Approval) error) (w Withdrawal, err error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return w, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		look, err := o.lookAt(ctx, t, []string{merchant})
		if err != nil {
			return err
		}
		_, limits, err := look.of(merchant)
		if err != nil {
			return err
		}
		if w, err = findWithdrawal(ctx, t, readWithdrawalSQL+"{lock}", merchant, rest); err != nil {
			return err
		}
		switch {
		case w.State != WithdrawalConfirmed:
			return &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + ": only a confirmed one is approved"}
		case w.Restored:
			return &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
		case !w.large(limits):
			return &db.ConflictError{Reason: "the withdrawal needs no approval: its amount is not above the merchant's approveAbove"}
		}
		list, added, err := db.AddApproval(ctx, t, aboutWithdrawal(w.ID), w.digest(), a)
		if err == nil && refuse != nil {
			err = refuse(ctx, t, list)
		}
		if err != nil || !added {
			return err
		}
		return journal.AddAbout(ctx, t, journal.WithdrawalApproved, id, a.At, journal.Approved{Withdrawal: journal.WithdrawalOf(merchant, w.CallBackID),
			TenantUserID: w.TenantUserID, Details: journal.DetailsOf(w.Details), Reason: a.Reason})
	})
	return w, err
}

// EachAwaitingPerson calls fn for the withdrawals above their merchant's limit that are confirmed
// since a time or longer, with their approvals, until fn gives false.
func (o *Outbox) EachAwaitingPerson(ctx context.Context, since db.Millis, fn func(Withdrawal, []db.Approval) (bool, error)) error {
	for after := ""; ; {
		merchants, err := o.Merchants(ctx, false, after, 100)
		if err != nil || len(merchants) == 0 {
			return err
		}
		for _, m := range merchants {
			after = m.ID
			if len(m.ApproveAbove) == 0 {
				continue
			}
			if more, err := o.eachLarge(ctx, m, since, fn); err != nil || !more {
				return err
			}
		}
	}
}

func (o *Outbox) eachLarge(ctx context.Context, m Merchant, since db.Millis, fn func(Withdrawal, []db.Approval) (bool, error)) (more bool, err error) {
	for cursor := ""; ; {
		list, next, err := o.Withdrawals(ctx, m.ID, WithdrawalConfirmed, 200, cursor)
		if err != nil {
			return false, err
		}
		for _, w := range list {
			if w.Decided > since || w.Restored || !w.large(m.ApproveAbove) {
				continue
			}
			given, err := db.Approvals(ctx, o, aboutWithdrawal(w.ID), w.digest())
			if err != nil {
				return false, err
			}
			if more, err := fn(w, given); err != nil || !more {
				return false, err
			}
		}
		if cursor = next; next == "" {
			return true, nil
		}
	}
}
