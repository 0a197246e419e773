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

// CancelWithdrawal cancels an awaiting withdrawal and its callback. Repeating it returns the same result. It returns
// a *ConflictError for a withdrawal in any other state, and for one that may have been executed before a restore.
func (o *Outbox) CancelWithdrawal(ctx context.Context, id string, now db.Millis) (Withdrawal, error) {
	return o.endByCall(ctx, id, client.WithdrawalAwaiting, client.WithdrawalCancelled, "",
		func(ctx context.Context, t *db.Tx, merchant, rest string) error {
			_, err := o.endWithdrawal(ctx, t, merchant, rest, client.WithdrawalCancelled, client.ReasonCancelled,
				"restored = 0", now)
			return err
		})
}

// endByCall ends a withdrawal of the state from by end, which leads to the state to. It does nothing while a restore is
// not reconciled. only ends the text about a withdrawal in any other state.
func (o *Outbox) endByCall(ctx context.Context, id string, from, to client.WithdrawalState, only string,
	end func(ctx context.Context, t *db.Tx, merchant, rest string) error) (w Withdrawal, err error) {
	err = o.write(ctx, id, func(ctx context.Context, t *db.Tx, merchant, rest string) error {
		open, err := db.EpochIsOpen(ctx, t)
		if err == nil && !open {
			err = end(ctx, t, merchant, rest)
		}
		if err != nil {
			return err
		}
		w, err = lockWithdrawal(ctx, t, merchant, rest)
		return err
	})
	switch {
	case err != nil:
		return Withdrawal{}, err
	case w.State == to:
		return w, nil
	case w.State == from:
		return Withdrawal{}, &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
	}
	return Withdrawal{}, &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + only}
}

const (
	lockQuestionSQL = `SELECT state, attempts FROM outbox WHERE merchant = $1 AND id = $2{lock}`

	endCallbackSQL = `
UPDATE outbox SET state = $3, lease_until = 0, last_reason = $4, settled = $5 WHERE merchant = $1 AND id = $2`
)

// endSQL returns the statement that decides an awaiting withdrawal without an answer, if the condition guard holds.
func endSQL(to client.WithdrawalState, reason client.Reason, guard string) string {
	return `
UPDATE withdrawals SET state = '` + string(to) + `', decision = '` + string(to) + `', reason = '` + string(reason) + `', decided = $3
WHERE merchant = $1 AND id = $2 AND state = 'awaiting' AND ` + guard
}

// endWithdrawal decides an awaiting withdrawal without an answer, if the condition guard holds. Its callback ends,
// whatever its state, and a result that comes later is late. If the question was sent, the merchant gets a notice of
// the end, except of a confirmation. endWithdrawal reports whether it decided.
func (o *Outbox) endWithdrawal(ctx context.Context, t *db.Tx, merchant, id string, to client.WithdrawalState,
	reason client.Reason, guard string, now db.Millis) (bool, error) {
	var was client.CallbackState
	var attempts int
	if _, err := db.One(ctx, t, lockQuestionSQL, []any{merchant, id}, &was, &attempts); err != nil {
		return false, err
	}
	n, err := t.Exec(ctx, endSQL(to, reason, guard), merchant, id, int64(now))
	if err != nil || n == 0 {
		return false, err
	}
	if attempts > 0 && to != client.WithdrawalConfirmed {
		w, err := findWithdrawal(ctx, t, readWithdrawalSQL, merchant, id)
		if err != nil {
			return false, err
		}
		if err := o.announceEnd(ctx, t, &w, now); err != nil {
			return false, err
		}
	}
	changes := laneChanges{}
	countMoved(t, client.WithdrawalAwaiting, to)
	if was == client.CallbackPending || was == client.CallbackSending {
		state := client.CallbackCancelled
		if to == client.WithdrawalExpired && reason == client.ReasonDeadline {
			state = client.CallbackExhausted
		}
		if _, err := t.Exec(ctx, endCallbackSQL, merchant, id, string(state), string(reason), int64(now)); err != nil {
			return false, err
		}
		if was == client.CallbackSending {
			changes.of(merchant, countersign.LaneWithdraw).Freed++
		}
		t.Count(countOfEnded(countersign.LaneWithdraw, state), 1)
	}
	if err := o.changeLanes(ctx, t, changes, now); err != nil {
		return false, err
	}
	f := &feedEntries{}
	f.decision(merchant, id)
	if err := f.write(ctx, t); err != nil {
		return false, err
	}
	return true, journal.AddAbout(ctx, t, journal.WithdrawalDecided, joinID(merchant, id), now,
		journal.Withdrawal{Merchant: merchant, Decision: string(to), Reason: string(reason)})
}

const blockSQL = `
UPDATE withdrawals SET state = 'blocked', ended = $3, blocked_reason = $4, blocked_by = $5, restored = 0
WHERE merchant = $1 AND id = $2 AND state = 'confirmed'`

// BlockWithdrawal blocks a confirmed withdrawal for ever: it is never released. Its decision stays, and the merchant
// gets a notice of the end. Repeating it returns the same result, with the first reason. It returns a *ConflictError
// for any other state.
func (o *Outbox) BlockWithdrawal(ctx context.Context, id, reason, by string, now db.Millis) (Withdrawal, error) {
	if reason == "" {
		return Withdrawal{}, fmt.Errorf("reason is %w: it is empty", db.ErrInvalid)
	}
	if err := db.CheckTexts("reason", reason, "by", by); err != nil {
		return Withdrawal{}, err
	}
	return o.endByCall(ctx, id, client.WithdrawalConfirmed, client.WithdrawalBlocked, ": only a confirmed one can be blocked",
		func(ctx context.Context, t *db.Tx, merchant, rest string) error {
			_, _, err := o.endConfirmed(ctx, t, merchant, rest, client.WithdrawalBlocked, now, blockSQL, reason, by)
			return err
		})
}

// endConfirmed ends a confirmed withdrawal for ever and queues the callback that informs the merchant. The statement
// text sets its state to the state to; more holds the arguments from $4 on. It returns the withdrawal and whether the
// statement changed it.
func (o *Outbox) endConfirmed(ctx context.Context, t *db.Tx, merchant, id string, to client.WithdrawalState,
	now db.Millis, text string, more ...any) (Withdrawal, bool, error) {
	n, err := t.Exec(ctx, text, append([]any{merchant, id, int64(now)}, more...)...)
	if err != nil {
		return Withdrawal{}, false, err
	}
	w, err := lockWithdrawal(ctx, t, merchant, id)
	if err != nil || n == 0 {
		return w, false, err
	}
	if _, err := t.Exec(ctx, dropAnswerSQL, joinID(merchant, id)); err != nil {
		return w, false, err
	}
	kind, data := journal.WithdrawalLapsed, any(journal.Withdrawal{Merchant: merchant, CallBackID: w.CallBackID})
	if to == client.WithdrawalBlocked {
		kind, data = journal.WithdrawalBlocked, journal.Stopped{Reason: w.BlockedReason}
	}
	if err := journal.AddAbout(ctx, t, kind, w.ID, now, data); err != nil {
		return w, false, err
	}
	countMoved(t, client.WithdrawalConfirmed, to)
	return w, true, o.announceEnd(ctx, t, &w, now)
}

// announceEnd queues the callback that informs the merchant that w ended without a release. The merchant may have
// confirmed w even if the service never read that answer. Until it learns of the end, it keeps funds frozen and
// limits used.
func (o *Outbox) announceEnd(ctx context.Context, t *db.Tx, w *Withdrawal, now db.Millis) error {
	target := cmp.Or(targetOf(w.Details), targetOf(w.Ordered))
	payload, err := (&countersign.WithdrawalEnded{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: w.TrackingID,
			TenantUserID: w.TenantUserID, Business: w.Business},
		CallBackID: w.CallBackID, ToAddress: target,
	}).Marshal()
	if err != nil {
		return err
	}
	row, err := o.newRow(0, NewCallback{Merchant: w.Merchant, Type: countersign.TypeInvalidAddress,
		TrackingID: w.TrackingID, CallBackID: w.CallBackID, TenantUserID: w.TenantUserID, Address: target,
		Payload: payload, Due: now, Deadline: db.Never}, now)
	if err != nil {
		return err
	}
	return o.insert(ctx, t, []newRow{row}, make([]client.Accepted, 1), now)
}
