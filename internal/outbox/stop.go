package outbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

const readFreezeSQL = `SELECT at, by_token, reason FROM frozen WHERE id = 'service'`

// freezeStatement returns the statement that reads the freeze into f. If there is no row, f stays zero.
func freezeStatement(f *client.Freeze) db.Statement {
	return db.Statement{SQL: readFreezeSQL, Row: func(r db.Rows) error {
		err := r.Scan(&f.At, &f.By, &f.Reason)
		f.Frozen = f.At != 0
		return err
	}}
}

// A decision and a release read the freeze and the merchant in their own transaction. A call that stops or changes
// merchants waits for the transactions that have read them. Once that call has returned, no decision and no release
// relies on the earlier state.
//
// The lock is on the table and not on rows. Transactions that share the lock of a row can keep a writer waiting for
// ever, while table locks are granted in the order of the requests. Transactions take this lock before anything else.
// SQLite has one writer and needs no lock.
const (
	lookAtStopsSQL = `LOCK TABLE frozen IN ROW SHARE MODE`
	changeStopsSQL = `LOCK TABLE frozen IN EXCLUSIVE MODE`
)

// lookAtStops returns the lock that must precede a read of the freeze and of merchants.
func (o *Outbox) lookAtStops() []db.Statement {
	if o.Dialect().ConcurrentWriters {
		return []db.Statement{{SQL: lookAtStopsSQL}}
	}
	return nil
}

// changeStops takes the lock that must precede any change of the freeze, or of a merchant by a person.
func (o *Outbox) changeStops(ctx context.Context, t *db.Tx) error {
	if !o.Dialect().ConcurrentWriters {
		return nil
	}
	_, err := t.Exec(ctx, changeStopsSQL)
	return err
}

const changeFreezeSQL = `
INSERT INTO frozen (id, at, by_token, reason) VALUES ('service', $1, $2, $3)
ON CONFLICT (id) DO UPDATE SET at = $1, by_token = $2, reason = $3`

// changeFreeze stores f as the freeze.
func (o *Outbox) changeFreeze(ctx context.Context, t *db.Tx, f client.Freeze) error {
	_, err := t.Exec(ctx, changeFreezeSQL, int64(f.At), f.By, f.Reason)
	return err
}

// Freeze freezes the service and raises AlarmFrozen. Once it has returned, no question is asked and nothing is
// decided or released on any node until Thaw. Deadlines still apply: a withdrawal that reaches its deadline expires.
// Repeating it changes nothing and returns the present freeze.
func (o *Outbox) Freeze(ctx context.Context, reason, by string, now db.Millis) (f client.Freeze, err error) {
	if err := cmp.Or(db.CheckIdentifier("reason", reason), db.CheckIdentifier("by", by)); err != nil {
		return client.Freeze{}, err
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		if f, err = readFreeze(ctx, t); err != nil || f.At != 0 {
			return err
		}
		f = client.Freeze{Frozen: true, At: now, By: by, Reason: reason}
		if err := o.changeFreeze(ctx, t, f); err != nil {
			return err
		}
		if err := db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmFrozen, Subject: reason,
			First: now}}); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.ServiceFrozen, journal.AboutFreezes, now, journal.Stopped{Reason: reason})
	})
	return f, err
}

// Thaw ends the freeze and raises AlarmControlChanged. Callbacks that are due are sent at once. Repeating it changes
// nothing.
func (o *Outbox) Thaw(ctx context.Context, now db.Millis) error {
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		wakeSenders(t)
		f, err := readFreeze(ctx, t)
		if err != nil || f.At == 0 {
			return err
		}
		if err := o.changeFreeze(ctx, t, client.Freeze{}); err != nil {
			return err
		}
		if err := resumed(ctx, t, "", "the freeze of "+f.At.Time().UTC().Format(time.RFC3339), client.AlarmFrozen,
			now); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.ServiceThawed, journal.AboutFreezes, now, nil)
	})
}

// resumedText is the suffix of the subject of an alarm that says that a stop was ended.
const resumedText = " was ended"

// resumed raises the alarm that a person has ended a stop, because somebody could use a stolen token to do so. It
// ends the alarm about the stop itself.
func resumed(ctx context.Context, t *db.Tx, merchant, what string, stop client.AlarmKind, now db.Millis) error {
	subject := what + resumedText
	if by := journal.Caller(ctx); by != "" {
		subject += ", by " + by
	}
	if err := db.RaiseAlarms(ctx, t, []client.Alarm{{Merchant: merchant, Kind: client.AlarmControlChanged,
		Subject: subject, First: now}}); err != nil {
		return err
	}
	return db.EndAlarms(ctx, t, []client.Alarm{{Merchant: merchant, Kind: stop, Ended: now}})
}

// Frozen returns the freeze. It returns the zero Freeze if there is none.
func (o *Outbox) Frozen(ctx context.Context) (client.Freeze, error) { return readFreeze(ctx, o) }

func readFreeze(ctx context.Context, q db.Querier) (f client.Freeze, err error) {
	s := freezeStatement(&f)
	err = db.Each(ctx, q, s.SQL, nil, s.Row)
	return f, err
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
	var w Withdrawal
	err := o.write(ctx, id, func(ctx context.Context, t *db.Tx, merchant, rest string) (err error) {
		open, err := db.EpochIsOpen(ctx, t)
		switch {
		case err != nil:
		case open:
			w, err = findWithdrawal(ctx, t, readWithdrawalSQL, merchant, rest)
		default:
			w, _, err = o.endConfirmed(ctx, t, merchant, rest, client.WithdrawalBlocked, now, blockSQL, reason, by)
		}
		return err
	})
	switch {
	case err != nil:
		return Withdrawal{}, err
	case w.State == client.WithdrawalBlocked:
		return w, nil
	case w.State == client.WithdrawalConfirmed:
		return Withdrawal{}, &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
	}
	return Withdrawal{}, &db.ConflictError{Reason: "the withdrawal is " + string(w.State) +
		": only a confirmed one can be blocked"}
}
