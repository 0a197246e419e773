package outbox

import (
	"cmp"
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const (
	lapsedSQL = `
SELECT merchant, id, 0, 1 FROM withdrawals WHERE state = 'confirmed' AND release_by <= $1 AND restored = 0 ORDER BY release_by LIMIT CAST($2 AS BIGINT)`

	lapseSQL = `
UPDATE withdrawals SET state = 'lapsed', ended = $3
WHERE merchant = $1 AND id = $2 AND state = 'confirmed' AND release_by <= $3 AND restored = 0`
)

// sweepLapsed ends confirmed withdrawals that were not released in time, even while releases are stopped. Release
// refuses them from that time on, whether they were swept or not.
func (o *Outbox) sweepLapsed(ctx context.Context, now db.Millis, done *Swept) (err error) {
	done.Lapsed, err = o.sweepEach(ctx, lapsedSQL, now, done, func(ctx context.Context, t *db.Tx, f swept) (bool, error) {
		_, lapsed, err := o.endConfirmed(ctx, t, f.merchant, f.id, client.WithdrawalLapsed, now, lapseSQL)
		if err != nil || !lapsed {
			return false, err
		}
		return true, db.RaiseAlarms(ctx, t, []client.Alarm{{Merchant: f.merchant, Kind: client.AlarmLapsed,
			Subject: f.callback(), First: now}})
	})
	return err
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
	return w, true, o.announceEnd(ctx, t, &w, now, countMoved(t, nil, client.WithdrawalConfirmed, to, 1)...)
}

// announceEnd queues the callback that informs the merchant that w ended without a release. The merchant may have
// confirmed w even if the service never read that answer. Until it learns of the end, it keeps funds frozen and
// limits used.
func (o *Outbox) announceEnd(ctx context.Context, t *db.Tx, w *Withdrawal, now db.Millis,
	counted ...db.Statement) error {
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
	return o.insert(ctx, t, []newRow{row}, make([]client.Accepted, 1), now, counted...)
}
