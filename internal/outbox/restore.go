package outbox

import (
	"cmp"
	"context"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Feeds lists the feeds whose readers continue after a number.
var Feeds = []string{db.FeedOfAlarms, FeedOfDecisions}

const restoredWithdrawalsSQL = `UPDATE withdrawals SET restored = 1 WHERE state IN ('awaiting', 'confirmed')`

// Restored begins an epoch after a restore. Nothing is released until Reconcile. Withdrawals that had not ended stay
// as they are until Adopt, AdoptEnd or ResumeWithdrawal says what became of them. least is the highest epoch number
// that is known from elsewhere, or 0.
func (o *Outbox) Restored(ctx context.Context, least int64, now db.Millis) (db.Epoch, error) {
	return journal.BeginEpoch(ctx, o.DB, journal.Restore{Kind: journal.ServiceRestored, Feeds: Feeds, Least: least,
		At: now, MarkSQL: restoredWithdrawalsSQL})
}

// Executed is a withdrawal for which the wallet core got a permit, as the core recorded it.
type Executed struct {
	Merchant     string
	CallBackID   string
	TenantUserID string          // required if the database does not know the withdrawal
	Details      *client.Details // what was executed; nil: what was confirmed or ordered here
	Claim        string          // who holds the permit; empty: client.ReasonRestored
	Permit       string          // empty: a new one, which its holder gets when it asks again
}

// inDoubt returns the SQL condition that a withdrawal may have been executed or ended before a restore. open means
// that the restore is not reconciled.
func inDoubt(open bool) string {
	if open {
		return "1 = 1"
	}
	return "restored <> 0"
}

const adoptSQL = `
UPDATE withdrawals SET state = 'released', claim = $3, permit = $4, released = $5,
	confirmed_address = $6, confirmed_chain = $7, confirmed_symbol = $8, confirmed_amount = $9, restored = 0
WHERE merchant = $1 AND id = $2 AND state = $10 AND permit = '' AND `

// Adopt records that a permit was issued before the restore, so that no other permit is issued. It does so in every
// state, because an execution cannot be undone. A withdrawal that has a permit stays as it is; if its permit or
// holder differs, Adopt returns a *ConflictError. Adopt works only while an epoch is open, or for a withdrawal from
// before a restore of which nobody has said what became of it.
func (o *Outbox) Adopt(ctx context.Context, x Executed, permit string, now db.Millis) error {
	if err := db.CheckTexts("claim", x.Claim, "permit", x.Permit, "callBackId", x.CallBackID); err != nil {
		return err
	}
	known, before, err := o.withdrawalOf(ctx, x, now)
	if err != nil {
		return err
	}
	d := cmp.Or(known.Details, x.Details, known.Ordered)
	if d == nil {
		return &db.ItemError{Member: "address",
			Err: fmt.Errorf("address, chainName, symbol and amount are missing, and %w here", db.ErrNotFound)}
	}
	holder, issued := cmp.Or(x.Claim, string(client.ReasonRestored)), cmp.Or(x.Permit, permit)
	return o.write(ctx, known.ID, func(ctx context.Context, t *db.Tx, _, rest string) error {
		open, err := db.EpochIsOpen(ctx, t)
		if err != nil {
			return err
		}
		if _, err := o.endWithdrawal(ctx, t, x.Merchant, rest, client.WithdrawalConfirmed, client.ReasonRestored,
			inDoubt(open), now); err != nil {
			return err
		}
		var kept string
		w, err := db.Find(ctx, t, readPermitSQL, []any{x.Merchant, rest},
			func(r db.Rows) (Withdrawal, error) { return scanWithdrawal(r, &kept) })
		if err != nil {
			return err
		}
		if kept != "" {
			if x.Permit != "" && kept != x.Permit || x.Claim != "" && w.Holder != x.Claim {
				return &db.ConflictError{Reason: "another permit was given, or another claim holds it"}
			}
			return nil
		}
		n, err := t.Exec(ctx, adoptSQL+inDoubt(open), x.Merchant, rest, holder, issued, int64(now),
			d.Address, d.ChainName, d.Symbol, d.Amount.String(), string(w.State))
		if err != nil {
			return err
		}
		if n == 0 {
			return errReconciled
		}
		row, err := o.sealEvidence(known.ID, evidence{Adopted: d})
		if err != nil {
			return err
		}
		countMoved(t, w.State, client.WithdrawalReleased)
		if err := t.Batch(ctx, insertAnswers.Statements(row, nil)); err != nil {
			return err
		}
		adopted := journal.Withdrawal{Merchant: x.Merchant, CallBackID: x.CallBackID, Was: string(before),
			Claim: journal.Fingerprint(holder), Permit: journal.Fingerprint(issued)}
		return journal.AddAbout(ctx, t, journal.WithdrawalAdopted, known.ID, now, adopted)
	})
}

// errReconciled is returned for what can be adopted only while an epoch is open.
var errReconciled = &db.ConflictError{Reason: "no restored database waits to be reconciled"}

// withdrawalOf returns the withdrawal of x and its state. It stores a withdrawal that is newer than the backup again,
// from the core's record of it, and then was is empty. It returns errReconciled if no epoch is open, because no backup
// lacks anything then.
func (o *Outbox) withdrawalOf(ctx context.Context, x Executed,
	now db.Millis) (w Withdrawal, was client.WithdrawalState, err error) {
	if w, err = o.WithdrawalByCallBackID(ctx, x.Merchant, x.CallBackID); err != db.ErrNotFound {
		return w, w.State, err
	}
	if open, err := db.EpochIsOpen(ctx, o); err != nil {
		return w, "", err
	} else if !open {
		return w, "", errReconciled
	}
	payload, err := (&countersign.WithdrawalRequest{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: x.CallBackID,
			TenantUserID: x.TenantUserID},
		CallBackID: x.CallBackID,
	}).Marshal()
	if err != nil {
		return w, "", err
	}
	made, err := o.CreateWithdrawals(ctx, []NewWithdrawal{{Merchant: x.Merchant, CallBackID: x.CallBackID,
		TenantUserID: x.TenantUserID, TrackingID: x.CallBackID, Details: x.Details, Deadline: now + 1,
		Payload: payload}}, now)
	if err != nil {
		return w, "", err
	}
	return made[0].Withdrawal, "", nil
}

// Reconcile ends the open epoch: withdrawals that were not adopted may be released again. It reports whether an epoch
// was open.
func (o *Outbox) Reconcile(ctx context.Context, now db.Millis) (open bool, err error) {
	return journal.EndEpoch(ctx, o.DB, journal.ServiceReconciled, now, nil)
}
