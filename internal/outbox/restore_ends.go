package outbox

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// adoptDecisionSQL returns the beginning of a statement that gives an awaiting withdrawal the decision it had.
func adoptDecisionSQL(to client.WithdrawalState) string {
	return `
UPDATE withdrawals SET state = '` + string(to) + `', decision = '` + string(to) + `', reason = 'restored', decided = $3, restored = 0
WHERE merchant = $1 AND id = $2 AND state = 'awaiting' AND `
}

const (
	adoptBlockSQL = `
UPDATE withdrawals SET state = 'blocked', ended = $3, blocked_reason = $4, blocked_by = 'reconcile', restored = 0
WHERE merchant = $1 AND id = $2 AND state = 'confirmed' AND `

	resumeSQL = `UPDATE withdrawals SET restored = 0 WHERE merchant = $1 AND id = $2 AND restored <> 0`
)

// AdoptEnd records that a withdrawal ended before the restore without a release, as the core or the merchant says, so
// that it is neither asked for nor released again. If it awaits a decision, it gets the one it had, so that readers of
// the decisions learn the same as before: declined or expired, confirmed if it was blocked or lapsed, and else
// cancelled. who says so; it is recorded as the reason. A withdrawal that is lost here is made again from x. AdoptEnd
// returns the state before, empty if the withdrawal was not known, and whether it has ended: one with a permit has not.
func (o *Outbox) AdoptEnd(ctx context.Context, x Executed, had client.WithdrawalState, who string, now db.Millis) (was client.WithdrawalState, ended bool, err error) {
	w, err := o.WithdrawalByCallBackID(ctx, x.Merchant, x.CallBackID)
	switch {
	case err == db.ErrNotFound:
		open, err := db.EpochIsOpen(ctx, o)
		if err != nil || !open {
			return "", false, err
		}
		if w, err = o.recreate(ctx, x, now); err != nil {
			return "", false, err
		}
	case err != nil:
		return "", false, err
	default:
		was = w.State
	}
	_, rest, err := splitID(w.ID)
	if err != nil {
		return was, false, err
	}
	to := client.WithdrawalCancelled
	if had == client.WithdrawalDeclined || had == client.WithdrawalExpired {
		to = had
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		open, err := db.EpochIsOpen(ctx, t)
		if err != nil {
			return err
		}
		if had == client.WithdrawalBlocked || had == client.WithdrawalLapsed {
			if _, err := o.endWithdrawal(ctx, t, x.Merchant, rest, presumeSQL+inDoubt(open), client.WithdrawalConfirmed, client.CallbackCancelled, client.ReasonRestored, now); err != nil {
				return err
			}
		}
		if ended, err = o.endWithdrawal(ctx, t, x.Merchant, rest, adoptDecisionSQL(to)+inDoubt(open), to, client.CallbackCancelled, client.ReasonRestored, now); err != nil || ended {
			return err
		}
		_, ended, err = o.endConfirmed(ctx, t, x.Merchant, rest, client.WithdrawalBlocked, now, adoptBlockSQL+inDoubt(open), fmt.Sprintf("ended before the restore, as %s says", who))
		return err
	})
	return was, ended, err
}

// ResumeWithdrawal records that, as a person found, nothing became of a restored withdrawal, so that it is decided and
// released like any other. Repeating it changes nothing. It fails while the restore is not reconciled.
func (o *Outbox) ResumeWithdrawal(ctx context.Context, id, reason, by string, now db.Millis) (Withdrawal, error) {
	return o.resumeRestored(ctx, id, reason, by, false, now)
}

// AdoptNothing is ResumeWithdrawal on the word of the core, also while the restore is not reconciled.
func (o *Outbox) AdoptNothing(ctx context.Context, id string, now db.Millis) error {
	_, err := o.resumeRestored(ctx, id, string(client.ReasonRestored), "reconcile", true, now)
	return err
}

func (o *Outbox) resumeRestored(ctx context.Context, id, reason, by string, reconciling bool, now db.Millis) (w Withdrawal, err error) {
	if err := db.CheckTexts("reason", reason, "by", by); err != nil {
		return Withdrawal{}, err
	}
	err = o.write(ctx, id, func(ctx context.Context, t *db.Tx, merchant, rest string) error {
		if w, err = lockWithdrawal(ctx, t, merchant, rest); err != nil || !w.Restored {
			return err
		}
		if open, err := db.EpochIsOpen(ctx, t); err != nil || open && !reconciling {
			if err == nil {
				err = &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
			}
			return err
		}
		if _, err := t.Exec(ctx, resumeSQL, merchant, rest); err != nil {
			return err
		}
		w.Restored = false
		return journal.AddAbout(ctx, t, journal.WithdrawalResumed, id, now, journal.Stopped{Reason: reason})
	})
	if err != nil {
		return Withdrawal{}, err
	}
	return w, nil
}
