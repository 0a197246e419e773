package outbox

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Feeds are the feeds whose readers continue after a number.
var Feeds = []string{db.FeedOfAlarms, FeedOfDecisions}

const restoredWithdrawalsSQL = `UPDATE withdrawals SET restored = 1 WHERE state IN ('awaiting', 'confirmed')`

// Restored begins an epoch after a restore. Nothing is released until Reconcile. Withdrawals that had not ended stay as
// they are until Adopt, AdoptEnd, AdoptNothing or ResumeWithdrawal says what became of them. least is the number of the
// last epoch that is known from elsewhere, or 0.
func (o *Outbox) Restored(ctx context.Context, least int64, now db.Millis) (db.Epoch, error) {
	return journal.BeginEpoch(ctx, o.DB, journal.Restore{Kind: journal.ServiceRestored, Feeds: Feeds, Least: least, At: now, MarkSQL: restoredWithdrawalsSQL})
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

// Adoption says what Adopt found.
type Adoption struct {
	Withdrawal Withdrawal
	Was        client.WithdrawalState // before; empty: it was not known
	Held       bool                   // its permit was recorded already
}

// inDoubt returns the condition on a withdrawal that it may have been executed or ended before a restore. open means
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

const presumeSQL = `
UPDATE withdrawals SET state = 'confirmed', decision = 'confirmed', reason = 'restored', decided = $3
WHERE merchant = $1 AND id = $2 AND state = 'awaiting' AND `

// Adopt records that a permit was issued before the restore, so that no other one is. It does so in every state, since
// an execution cannot be undone; Adoption.Was shows a disagreement. A withdrawal with a permit stays as it is; if its
// permit or holder is another one, the error is a *ConflictError. Adopt works only while an epoch is open, or for a
// withdrawal from before a restore whose fate nobody has stated.
func (o *Outbox) Adopt(ctx context.Context, x Executed, permit string, now db.Millis) (a Adoption, err error) {
	if err := db.CheckTexts("claim", x.Claim, "permit", x.Permit, "callBackId", x.CallBackID); err != nil {
		return a, err
	}
	known, err := o.WithdrawalByCallBackID(ctx, x.Merchant, x.CallBackID)
	if err == db.ErrNotFound {
		if known, err = o.recreate(ctx, x, now); err != nil {
			return a, err
		}
	} else if err != nil {
		return a, err
	} else {
		a.Was = known.State
	}
	d := cmp.Or(known.Details, x.Details, known.Ordered)
	if d == nil {
		return a, &db.ItemError{Member: "address", Err: fmt.Errorf("address, chainName, symbol and amount are missing, and %w here", db.ErrNotFound)}
	}
	holder, issued := cmp.Or(x.Claim, string(client.ReasonRestored)), cmp.Or(x.Permit, permit)
	_, rest, _ := strings.Cut(known.ID, ".")
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		open, err := db.EpochIsOpen(ctx, t)
		if err != nil {
			return err
		}
		if _, err := o.endWithdrawal(ctx, t, x.Merchant, rest, presumeSQL+inDoubt(open), client.WithdrawalConfirmed, client.CallbackCancelled, client.ReasonRestored, now); err != nil {
			return err
		}
		var kept string
		a.Withdrawal, err = db.Find(ctx, t, readPermitSQL, []any{x.Merchant, rest}, func(r db.Rows) (Withdrawal, error) { return scanWithdrawal(r, &kept) })
		if err != nil {
			return err
		}
		if kept != "" {
			a.Held = true
			if x.Permit != "" && kept != x.Permit || x.Claim != "" && a.Withdrawal.Holder != x.Claim {
				return &db.ConflictError{Reason: "another permit was given, or another claim holds it"}
			}
			return nil
		}
		was := a.Withdrawal.State
		n, err := t.Exec(ctx, adoptSQL+inDoubt(open), x.Merchant, rest, holder, issued, int64(now),
			d.Address, d.ChainName, d.Symbol, d.Amount.String(), string(was))
		if err != nil {
			return err
		}
		if n == 0 {
			return &db.ConflictError{Reason: "no restored database waits to be reconciled"}
		}
		row, err := o.sealEvidence(known.ID, evidence{Adopted: d})
		if err != nil {
			return err
		}
		if err := t.Batch(ctx, countMoved(t, insertAnswers.Statements(row, nil), was, client.WithdrawalReleased, 1)); err != nil {
			return err
		}
		adopted := journal.Withdrawal{Merchant: x.Merchant, CallBackID: x.CallBackID, Was: string(a.Was), Claim: journal.Fingerprint(holder), Permit: journal.Fingerprint(issued)}
		if err := journal.AddAbout(ctx, t, journal.WithdrawalAdopted, known.ID, now, adopted); err != nil {
			return err
		}
		a.Withdrawal, err = findWithdrawal(ctx, t, readWithdrawalSQL, x.Merchant, rest)
		return err
	})
	return a, err
}

// recreate makes a withdrawal that is newer than the backup again, from what the core says.
func (o *Outbox) recreate(ctx context.Context, x Executed, now db.Millis) (Withdrawal, error) {
	payload, err := (&countersign.WithdrawalRequest{
		Head:       countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: x.CallBackID, TenantUserID: x.TenantUserID},
		CallBackID: x.CallBackID,
	}).Marshal()
	if err != nil {
		return Withdrawal{}, err
	}
	made, err := o.CreateWithdrawals(ctx, []NewWithdrawal{{Merchant: x.Merchant, CallBackID: x.CallBackID, TenantUserID: x.TenantUserID,
		TrackingID: x.CallBackID, Details: x.Details, Deadline: now + 1, Payload: payload}}, now)
	if err != nil {
		return Withdrawal{}, err
	}
	return made[0].Withdrawal, nil
}

// Reconcile ends the open epoch: withdrawals that were not adopted may be released again. It reports whether one was
// open.
func (o *Outbox) Reconcile(ctx context.Context, now db.Millis) (open bool, err error) {
	return journal.EndEpoch(ctx, o.DB, journal.ServiceReconciled, now, nil)
}
