package outbox

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const resumeSQL = `UPDATE withdrawals SET restored = 0 WHERE merchant = $1 AND call_back_id = $2 AND restored <> 0`

// AdoptEnd records that a withdrawal ended before the restore without a release, as the core or the merchant says. It
// is then neither asked about nor released again. An awaiting withdrawal gets the decision it had, so that readers of
// the decisions learn the same as before: declined or expired; confirmed if it was blocked or lapsed; otherwise
// cancelled. who says so, and is recorded in the reason. A withdrawal that the backup lacks is made again from x.
// AdoptEnd reports whether the withdrawal has ended; one with a permit has not.
func (o *Outbox) AdoptEnd(ctx context.Context, x Executed, had client.WithdrawalState, who string,
	now db.Millis) (ended bool, err error) {
	w, _, err := o.withdrawalOf(ctx, x, now)
	if err != nil {
		return false, err
	}
	to := client.WithdrawalCancelled
	if had == client.WithdrawalDeclined || had == client.WithdrawalExpired {
		to = had
	}
	err = o.write(ctx, w.ID, func(ctx context.Context, t *db.Tx, _, rest string) error {
		open, err := db.EpochIsOpen(ctx, t)
		if err != nil {
			return err
		}
		if had == client.WithdrawalBlocked || had == client.WithdrawalLapsed {
			if _, err := o.endWithdrawal(ctx, t, x.Merchant, rest, client.WithdrawalConfirmed, client.ReasonRestored,
				inDoubt(open), now); err != nil {
				return err
			}
		}
		if ended, err = o.endWithdrawal(ctx, t, x.Merchant, rest, to, client.ReasonRestored, inDoubt(open), now); err != nil {
			return err
		}
		if ended {
			_, err = t.Exec(ctx, resumeSQL, x.Merchant, x.CallBackID)
			return err
		}
		_, ended, err = o.endConfirmed(ctx, t, x.Merchant, rest, client.WithdrawalBlocked, now,
			blockSQL+" AND "+inDoubt(open), "ended before the restore, as "+who+" says", "reconcile")
		return err
	})
	return ended, err
}

// ResumeWithdrawal records that nothing became of a restored withdrawal, so that it is decided and released like any
// other. Repeating it changes nothing. A person can say so only after the restore is reconciled. The core, with
// reconciling, can say so before.
func (o *Outbox) ResumeWithdrawal(ctx context.Context, id, reason string, reconciling bool, now db.Millis) error {
	if err := db.CheckText("reason", reason); err != nil {
		return err
	}
	return o.withWithdrawal(ctx, id, func(ctx context.Context, t *db.Tx, w *Withdrawal) error {
		if !w.Restored {
			return nil
		}
		if open, err := db.EpochIsOpen(ctx, t); err != nil {
			return err
		} else if open && !reconciling {
			return &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
		}
		if _, err := t.Exec(ctx, resumeSQL, w.Merchant, w.CallBackID); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.WithdrawalResumed, id, now, journal.Stopped{Reason: reason})
	})
}
