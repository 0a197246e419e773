package outbox

import (
	"context"
	"fmt"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
)

// Freeze stops sending, deciding and releasing for all merchants. The zero Freeze is
// none.
type Freeze struct {
	At     db.Millis // when it began; 0: the service is not frozen
	By     string    // the token that froze it
	Reason string
}

// A decision and a release look at the freeze and at the merchant in their own
// transaction, and a call that stops or changes merchants waits for those that have looked.
// So once that call has returned, no decision and no release rests on the earlier state.
//
// The lock is on the table and not on rows: lockers of a row that share it can keep a
// writer waiting for ever, while a table's lock is given in the order of asking.
// Transactions take it before anything else. SQLite has one writer and needs none.
const (
	lookAtStopsSQL = `LOCK TABLE frozen IN ROW SHARE MODE`
	changeStopsSQL = `LOCK TABLE frozen IN EXCLUSIVE MODE`
)

// lookAtStops adds to list what precedes a look at the freeze and at merchants.
func (o *Outbox) lookAtStops(list []db.Statement) []db.Statement {
	if o.Dialect().ConcurrentWriters {
		list = append(list, db.Statement{SQL: lookAtStopsSQL})
	}
	return list
}

// changeStops precedes every change of the freeze, and of a merchant by a person.
func (o *Outbox) changeStops(ctx context.Context, t *db.Tx) error {
	if !o.Dialect().ConcurrentWriters {
		return nil
	}
	_, err := t.Exec(ctx, changeStopsSQL)
	return err
}

// stopped gives the reason why nothing is decided or released, empty if there is none.
func stopped(state MerchantState, frozen int64) client.Reason {
	switch {
	case frozen > 0:
		return client.ReasonFrozen
	case state != MerchantActive:
		return client.ReasonPaused
	}
	return ""
}

const (
	freezeSQL = `INSERT INTO frozen (one, at, by_token, reason) VALUES (1, $1, $2, $3) ON CONFLICT (one) DO NOTHING`

	thawSQL = `DELETE FROM frozen WHERE one = 1 RETURNING at`

	readFreezeSQL = `SELECT at, by_token, reason FROM frozen WHERE one = 1`
)

// Freeze freezes the service and raises AlarmFrozen. When it returns, no question is
// asked any more and nothing is decided or released until Thaw, on any node. Deadlines
// go on: what reaches its deadline expires. Repeating it changes nothing and gives the
// freeze that there is.
func (o *Outbox) Freeze(ctx context.Context, reason, by string, now db.Millis) (f Freeze, err error) {
	for _, text := range []struct{ member, text string }{{"reason", reason}, {"by", by}} {
		if err := db.CheckIdentifier(text.member, text.text); err != nil {
			return Freeze{}, err
		}
	}
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		n, err := t.Exec(ctx, freezeSQL, int64(now), by, reason)
		if err != nil {
			return err
		}
		if n == 1 {
			if err := db.RaiseAlarms(ctx, t, []db.Alarm{{Kind: client.AlarmFrozen, Subject: reason, At: now}}); err != nil {
				return err
			}
			if err := audit.AddAbout(ctx, t, audit.ServiceFrozen, audit.AboutFreezes, now, audit.Stopped{Reason: reason}); err != nil {
				return err
			}
		}
		f, err = readFreeze(ctx, t)
		return err
	})
	return f, err
}

// Thaw ends the freeze and raises AlarmResumed. What is due is sent at once. Repeating it
// changes nothing.
func (o *Outbox) Thaw(ctx context.Context, now db.Millis) error {
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := o.changeStops(ctx, t); err != nil {
			return err
		}
		t.Wake(TopicOf(countersign.LaneNotify))
		t.Wake(TopicOf(countersign.LaneWithdraw))
		var since db.Millis
		frozen, err := db.One(ctx, t, thawSQL, nil, &since)
		if err != nil || !frozen {
			return err
		}
		if err := resumed(ctx, t, "", "the freeze of "+since.Time().UTC().Format(time.RFC3339), now); err != nil {
			return err
		}
		return audit.AddAbout(ctx, t, audit.ServiceThawed, audit.AboutFreezes, now, nil)
	})
}

// resumed tells what a person has let go on: who stole a token may undo what others stopped.
func resumed(ctx context.Context, t *db.Tx, merchant, what string, now db.Millis) error {
	subject := what
	if by := audit.Caller(ctx); by != "" {
		subject += ", by " + by
	}
	return db.RaiseAlarms(ctx, t, []db.Alarm{{Of: merchant, Kind: client.AlarmResumed, Subject: subject, At: now}})
}

// Frozen gives the freeze, the zero Freeze if there is none.
func (o *Outbox) Frozen(ctx context.Context) (Freeze, error) { return readFreeze(ctx, o) }

func readFreeze(ctx context.Context, q db.Querier) (f Freeze, err error) {
	_, err = db.One(ctx, q, readFreezeSQL, nil, &f.At, &f.By, &f.Reason)
	return f, err
}

const blockSQL = `
UPDATE withdrawals SET state = 'blocked', ended = $3, blocked_reason = $4, blocked_by = $5, restored = 0
WHERE merchant = $1 AND id = $2 AND state = 'confirmed' AND NOT ` + db.OpenEpochSQL

// BlockWithdrawal makes a confirmed withdrawal blocked, for ever: it is never released.
// Its decision stays, and the merchant is told that it has ended. Repeating it gives
// the same result, with the first reason; any other state is a *ConflictError.
func (o *Outbox) BlockWithdrawal(ctx context.Context, id, reason, by string, now db.Millis) (Withdrawal, error) {
	merchant, rest, err := splitID(id)
	if err != nil {
		return Withdrawal{}, err
	}
	if reason == "" {
		return Withdrawal{}, fmt.Errorf("reason is %w: it is empty", db.ErrInvalid)
	}
	if err := db.CheckTexts("reason", reason, "by", by); err != nil {
		return Withdrawal{}, err
	}
	var w Withdrawal
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		w, _, err = o.endConfirmed(ctx, t, merchant, rest, WithdrawalBlocked, now, blockSQL, reason, by)
		return err
	})
	switch {
	case err != nil:
		return Withdrawal{}, err
	case w.State == WithdrawalConfirmed:
		return Withdrawal{}, &db.ConflictError{Reason: stopTexts[client.ReasonRestored]}
	case w.State != WithdrawalBlocked:
		return Withdrawal{}, &db.ConflictError{Reason: "the withdrawal is " + string(w.State) + ": only a confirmed one can be blocked"}
	}
	return w, nil
}
