package store

import "context"

// feedEntries gathers what a transaction appends to the feeds. A feed's last
// number is a row; taking it last keeps the time short for which transactions
// wait for each other there, and makes numbers appear in order: whoever has a
// higher one has waited for the commit of the lower.
type feedEntries struct {
	alarms    []Alarm
	decisions [][2]string // merchant and the withdrawal's part of the id
}

func (f *feedEntries) alarm(merchant, kind, subject string, at Millis) {
	f.alarms = append(f.alarms, Alarm{Merchant: merchant, Kind: clean(kind), Subject: clean(subject), At: at})
}

func (f *feedEntries) decision(merchant, id string) {
	f.decisions = append(f.decisions, [2]string{merchant, id})
}

const (
	lockFeedSQL  = `SELECT last_seq FROM feeds WHERE name = $1{lock}`
	writeFeedSQL = `UPDATE feeds SET last_seq = $2 WHERE name = $1`

	insertDecisionSQL = `INSERT INTO decisions (seq, merchant, withdrawal) VALUES ($1, $2, $3)`
	insertAlarmSQL    = `INSERT INTO alarms (seq, merchant, kind, subject, at) VALUES ($1, $2, $3, $4, $5)`
	sameAlarmSQL      = `SELECT 1 FROM alarms WHERE merchant = $1 AND kind = $2 AND subject = $3 AND at > $4 LIMIT 1`
)

// sameAlarmWindow is how long the same alarm is not raised again.
const sameAlarmWindow Millis = 3_600_000

// write appends everything: alarms first, so that every transaction locks the
// feeds in one order.
func (f *feedEntries) write(ctx context.Context, t *tx) error {
	if err := f.writeAlarms(ctx, t); err != nil || len(f.decisions) == 0 {
		return err
	}
	var seq int64
	if _, err := one(ctx, t, lockFeedSQL, []any{"decisions"}, &seq); err != nil {
		return err
	}
	statements := make([]statement, 0, len(f.decisions)+1)
	for _, d := range f.decisions {
		seq++
		statements = append(statements, statement{sql: insertDecisionSQL, args: []any{seq, d[0], d[1]}})
	}
	t.wake(TopicDecisions)
	return t.batch(ctx, append(statements, statement{sql: writeFeedSQL, args: []any{"decisions", seq}}))
}

func (f *feedEntries) writeAlarms(ctx context.Context, t *tx) error {
	if len(f.alarms) == 0 {
		return nil
	}
	var seq int64
	if _, err := one(ctx, t, lockFeedSQL, []any{"alarms"}, &seq); err != nil {
		return err
	}
	for _, a := range f.alarms {
		var is int
		same, err := one(ctx, t, sameAlarmSQL, []any{a.Merchant, a.Kind, a.Subject, int64(a.At - sameAlarmWindow)}, &is)
		if err != nil {
			return err
		}
		if same {
			continue
		}
		seq++
		if _, err := t.exec(ctx, insertAlarmSQL, seq, a.Merchant, a.Kind, a.Subject, int64(a.At)); err != nil {
			return err
		}
	}
	_, err := t.exec(ctx, writeFeedSQL, "alarms", seq)
	return err
}

const listDecisionsSQL = `
SELECT d.seq, ` + withdrawalColumns + `
FROM decisions d JOIN withdrawals w ON w.merchant = d.merchant AND w.id = d.withdrawal
WHERE d.seq > $1 ORDER BY d.seq LIMIT CAST($2 AS BIGINT)`

// Decisions gives decisions after seq after, in order and without gaps. The
// withdrawals are as they stand now.
func (s *Store) Decisions(ctx context.Context, after int64, limit int) ([]FeedDecision, error) {
	var list []FeedDecision
	err := each(ctx, s.db, listDecisionsSQL, []any{after, limit}, func(r rows) error {
		var d FeedDecision
		var err error
		d.Withdrawal, err = scanWithdrawal(r, &d.Seq)
		list = append(list, d)
		return err
	})
	return list, err
}

const listAlarmsSQL = `SELECT seq, merchant, kind, subject, at FROM alarms WHERE seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`

// Alarms gives alarms after seq after, in order.
func (s *Store) Alarms(ctx context.Context, after int64, limit int) ([]Alarm, error) {
	var list []Alarm
	err := each(ctx, s.db, listAlarmsSQL, []any{after, limit}, func(r rows) error {
		var a Alarm
		err := r.Scan(&a.Seq, &a.Merchant, &a.Kind, &a.Subject, &a.At)
		list = append(list, a)
		return err
	})
	return list, err
}

// RaiseAlarm keeps an alarm. The same merchant, kind and subject within an hour
// is kept once.
func (s *Store) RaiseAlarm(ctx context.Context, a Alarm) error {
	for _, text := range []struct{ member, text string }{{"merchant", a.Merchant}, {"kind", a.Kind}, {"subject", a.Subject}} {
		if err := checkIdentifier(text.member, text.text); err != nil {
			return err
		}
	}
	return s.db.write(ctx, func(ctx context.Context, t *tx) error {
		f := &feedEntries{}
		f.alarm(a.Merchant, a.Kind, a.Subject, a.At)
		return f.write(ctx, t)
	})
}
