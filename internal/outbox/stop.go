package outbox

import (
	"context"

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

func readFreeze(ctx context.Context, q db.Querier) (f client.Freeze, err error) {
	s := freezeStatement(&f)
	err = db.Each(ctx, q, s.SQL, nil, s.Row)
	return f, err
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

// changeStops takes the lock that must precede any change of the freeze, or of a merchant by a person.
func (o *Outbox) changeStops(ctx context.Context, t *db.Tx) error {
	if !o.Dialect().ConcurrentWriters {
		return nil
	}
	_, err := t.Exec(ctx, changeStopsSQL)
	return err
}

// stopTexts says to callers why there is no permit at the moment.
var stopTexts = map[client.Reason]string{
	client.ReasonFrozen:   "the service is frozen: nothing is released until it is thawed",
	client.ReasonPaused:   "the merchant is paused: nothing of it is released until it is resumed",
	client.ReasonRestored: "this may have been released before a restore: nothing becomes of it until the restore is reconciled and the core or a person has said that nothing became of it",
}

// resumed raises the alarm that a person has ended a stop, because somebody could use a stolen token to do so. It
// ends the alarm about the stop itself.
func resumed(ctx context.Context, t *db.Tx, merchant, what string, stop client.AlarmKind, now db.Millis) error {
	subject := what + " was ended"
	if by := journal.Caller(ctx); by != "" {
		subject += ", by " + by
	}
	if err := db.RaiseAlarms(ctx, t, []client.Alarm{{Merchant: merchant, Kind: client.AlarmControlChanged,
		Subject: subject, First: now}}); err != nil {
		return err
	}
	return db.EndAlarms(ctx, t, []client.Alarm{{Merchant: merchant, Kind: stop, Ended: now}})
}
