package outbox

import (
	"context"
	"fmt"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const recordOutcomeSQL = `
UPDATE withdrawals SET state = $4, tx_id = $5, fail_reason = $6, ended = $7
WHERE merchant = $1 AND id = $2 AND permit = $3 AND state = 'released'`

// RecordOutcomes ends released withdrawals and queues the Callback of each. The same outcome again is a duplicate.
// Another outcome or another permit is a *ConflictError. A different end or transaction under the right permit is also
// recorded and raises outcome_differs. If it names a transaction, the merchant gets it too, because funds may have
// moved.
//
// Everything is done in one transaction. Each item has its own result, in the order of list, and is recorded or
// refused whatever happens to the others. If RecordOutcomes returns an error, nothing was recorded. list names each
// withdrawal once. Rows are locked in the order of ReleaseMany.
func (o *Outbox) RecordOutcomes(ctx context.Context, list []Outcome, now db.Millis) ([]Recorded, error) {
	var done []Recorded
	err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		done = make([]Recorded, len(list))
		var batch []*reported
		for _, i := range sortedByID(len(list), func(i int) string { return list[i].ID }) {
			e, err := o.newReported(list[i], now)
			if done[i].Err = err; err == nil {
				e.out = &done[i]
				batch = append(batch, e)
			}
		}
		if err := o.recordOutcomes(ctx, t, batch, now); err != nil {
			return err
		}
		for _, e := range batch {
			if e.out.Err = e.refusal(); e.out.Err == nil {
				e.out.Withdrawal, e.out.Duplicate = e.w, e.recorded == 0
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// reported is one Outcome that is being recorded.
type reported struct {
	Outcome
	merchant, rest string
	row            newRow // the callback
	state          client.WithdrawalState
	out            *Recorded
	recorded       int64
	found          bool
	w              Withdrawal
	permit         string // the permit that was issued
	waits          bool   // it reports a failure while a restore is not reconciled
}

func (o *Outbox) newReported(n Outcome, now db.Millis) (*reported, error) {
	merchant, rest, err := splitID(n.ID)
	if err != nil {
		return nil, err
	}
	e := &reported{Outcome: n, merchant: merchant, rest: rest, state: client.WithdrawalExecuted}
	want := countersign.EffectExecuted
	if n.FailReason != "" {
		e.state, want = client.WithdrawalFailed, countersign.EffectEnded
	}
	switch {
	case (n.TxID == "") == (n.FailReason == ""):
		return nil, fmt.Errorf("outcome is %w: want either txId or a reason", db.ErrInvalid)
	case n.Callback.Merchant != merchant || n.Callback.Type.Effect() != want:
		return nil, fmt.Errorf("outcome is %w: its callback says something else or goes to another merchant", db.ErrInvalid)
	}
	if err := db.CheckTexts("permit", n.Permit, "txId", n.TxID, "reason", n.FailReason); err != nil {
		return nil, err
	}
	n.Callback.EventID = "" // each end is queued once
	e.row, err = o.newRow(0, n.Callback, now)
	return e, err
}

// refusal returns why e was not recorded. It returns nil if e was recorded, now or before.
func (e *reported) refusal() error {
	w := &e.w
	switch {
	case !e.found:
		return db.ErrNotFound
	case e.recorded == 1:
		return nil
	case e.permit == "":
		return &db.ConflictError{Reason: "the withdrawal is " + string(w.State)}
	case e.waits && e.w.State == client.WithdrawalReleased && e.permit == e.Permit:
		return &db.ConflictError{Reason: "a restore is not reconciled: the withdrawal may have been reported as executed before it. Report again when it is"}
	case e.permit != e.Permit:
		return &db.ConflictError{Member: "permit", Reason: "is not the one that was given"}
	case w.State != e.state || countersign.FoldTxID(w.TxID) != countersign.FoldTxID(e.TxID) ||
		w.FailReason != e.FailReason:
		return &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + " with another outcome"}
	}
	return nil
}

// recordOutcomes does the work of RecordOutcomes in its transaction.
func (o *Outbox) recordOutcomes(ctx context.Context, t *db.Tx, batch []*reported, now db.Millis) error {
	open := false
	if slices.ContainsFunc(batch, func(e *reported) bool { return e.state == client.WithdrawalFailed }) {
		var err error
		if open, err = db.EpochIsOpen(ctx, t); err != nil {
			return err
		}
	}
	statements := make([]db.Statement, 0, 2*len(batch))
	for _, e := range batch {
		// In a backup, a withdrawal that was executed later may still be released. The merchant therefore learns of a
		// failure only after the books of the core were compared.
		if e.waits = open && e.state == client.WithdrawalFailed; !e.waits {
			statements = append(statements, db.Statement{SQL: recordOutcomeSQL, N: &e.recorded,
				Args: []any{e.merchant, e.rest, e.Permit, string(e.state), e.TxID, e.FailReason, int64(now)}})
		}
		statements = append(statements,
			db.Statement{SQL: readPermitSQL, Args: []any{e.merchant, e.rest}, Row: func(r db.Rows) (err error) {
				e.found = true
				e.w, err = scanWithdrawal(r, &e.permit)
				return err
			}})
	}
	if err := t.Batch(ctx, statements); err != nil {
		return err
	}
	var tell []newRow
	var alarms []client.Alarm
	for _, e := range batch {
		tells := e.recorded == 1
		switch {
		case tells:
			countMoved(t, client.WithdrawalReleased, e.state)
			r := journal.Withdrawal{Merchant: e.merchant, CallBackID: e.w.CallBackID, State: string(e.state),
				Permit: journal.Fingerprint(e.Permit), TxID: e.TxID, Reason: e.FailReason}
			if err := journal.AddAbout(ctx, t, journal.WithdrawalEnded, e.ID, now, r); err != nil {
				return err
			}
		case e.contradicts():
			var err error
			if tells, err = contradict(ctx, t, e, now); err != nil {
				return err
			}
			alarms = append(alarms, client.Alarm{Merchant: e.merchant, Kind: client.AlarmWalletDiffers,
				Subject: e.ID + outcomeDiffers, First: now})
		}
		if tells {
			tell = append(tell, e.callback(len(tell)))
		}
	}
	if err := o.insert(ctx, t, tell, make([]client.Accepted, len(tell)), now); err != nil {
		return err
	}
	return db.RaiseAlarms(ctx, t, alarms)
}

// contradicts reports whether e has the right permit but a different end or transaction.
func (e *reported) contradicts() bool {
	return e.recorded == 0 && e.w.State != client.WithdrawalReleased && e.permit != "" && e.permit == e.Permit &&
		(e.w.State != e.state || countersign.FoldTxID(e.w.TxID) != countersign.FoldTxID(e.TxID))
}

// callback returns the callback that informs the merchant of e. n is its index in the list.
func (e *reported) callback(n int) newRow {
	row, w := e.row, &e.w
	row.item = n
	row.CallBackID, row.TenantUserID, row.Address = w.CallBackID, w.TenantUserID, targetOf(w.Details)
	return row
}

// noticeOfSQL finds the callback that informed the merchant of a transaction.
const noticeOfSQL = `SELECT 1 FROM callbacks WHERE merchant = $1 AND call_back_id = $2 AND tx_id = $3 AND type = 3`

// contradict records an outcome that contradicts how its withdrawal ended, and reports whether the merchant must get
// it. The merchant gets only transactions: after a report that funds moved, no callback says that they did not.
func contradict(ctx context.Context, t *db.Tx, e *reported, now db.Millis) (tells bool, err error) {
	w := &e.w
	differs := journal.Withdrawal{Merchant: w.Merchant, CallBackID: w.CallBackID, Permit: journal.Fingerprint(e.Permit),
		Stands:   &journal.Outcome{State: string(w.State), TxID: w.TxID, Reason: w.FailReason},
		Reported: &journal.Outcome{State: string(e.state), TxID: e.TxID, Reason: e.FailReason}}
	if err := journal.AddAbout(ctx, t, journal.WithdrawalContradicted, w.ID, now, differs); err != nil || e.TxID == "" {
		return false, err
	}
	found, err := db.One(ctx, t, noticeOfSQL, []any{w.Merchant, w.CallBackID, e.TxID})
	return !found && err == nil, err
}

// RecordWaiting queues n, which says that a released withdrawal waits. It returns the withdrawal and the callback's
// id. Each call queues another callback, because n has no event id. It returns a *db.ConflictError if the withdrawal
// is not released yet, or no longer.
func (o *Outbox) RecordWaiting(ctx context.Context, id string, n NewCallback,
	now db.Millis) (w Withdrawal, callback string, err error) {
	n.EventID = ""
	// The lock prevents that an outcome is recorded before this callback is queued.
	err = o.withWithdrawal(ctx, id, func(ctx context.Context, t *db.Tx, locked *Withdrawal) error {
		if w = *locked; n.Merchant != w.Merchant || n.Type.Report() == "" {
			return fmt.Errorf("callback is %w: it does not say to this merchant that a withdrawal waits", db.ErrInvalid)
		}
		if w.State != client.WithdrawalReleased {
			return &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + ": only a released one waits"}
		}
		n.CallBackID, n.TenantUserID, n.Address = w.CallBackID, w.TenantUserID, targetOf(w.Details)
		row, err := o.newRow(0, n, now)
		if err != nil {
			return err
		}
		callback = joinID(w.Merchant, row.id)
		waits := journal.Withdrawal{Merchant: w.Merchant, CallBackID: w.CallBackID, Type: int(n.Type), Callback: callback}
		if err := journal.AddAbout(ctx, t, journal.WithdrawalWaits, id, now, waits); err != nil {
			return err
		}
		return o.insert(ctx, t, []newRow{row}, make([]client.Accepted, 1), now)
	})
	return w, callback, err
}
