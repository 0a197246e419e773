package db

import "context"

// Alarm is something that a person should check.
type Alarm struct {
	Seq     int64
	Of      string // the merchant that it is about; empty in a merchant's database
	Kind    string // fixed word, such as "answer_differs"
	Subject string // what it is about, such as an id
	At      Millis
	Acked   Millis // when somebody acknowledged it; 0: nobody has
	AckedBy string // the token
}

// alarmFeed is the feed of alarms. Transactions raise their alarms before they
// take numbers from the feeds of their end.
const alarmFeed = "alarms"

// sameAlarmWindow is how long the same alarm is not raised again.
const sameAlarmWindow Millis = 3_600_000

const (
	insertAlarmSQL  = `INSERT INTO alarms (seq, merchant, kind, subject, at) VALUES ($1, $2, $3, $4, $5)`
	sameAlarmSQL    = `SELECT 1 FROM alarms WHERE merchant = $1 AND kind = $2 AND subject = $3 AND at > $4 LIMIT 1`
	readAlarmsSQL   = `SELECT seq, merchant, kind, subject, at, acked, acked_by FROM alarms WHERE `
	listAlarmsSQL   = readAlarmsSQL + `seq > $1 ORDER BY seq LIMIT CAST($2 AS BIGINT)`
	openAlarmsSQL   = readAlarmsSQL + `seq > $1 AND acked = 0 ORDER BY seq LIMIT CAST($2 AS BIGINT)`
	alarmsOfSQL     = readAlarmsSQL + `merchant = $1 AND seq > $2 ORDER BY seq LIMIT CAST($3 AS BIGINT)`
	openAlarmsOfSQL = readAlarmsSQL + `merchant = $1 AND seq > $2 AND acked = 0 ORDER BY seq LIMIT CAST($3 AS BIGINT)`
	ackAlarmSQL     = `UPDATE alarms SET acked = $2, acked_by = $3 WHERE seq = $1 AND acked = 0`
)

// RaiseAlarms keeps alarms as part of t. An alarm that repeats one of the last
// hour is not kept again. Text that cannot be stored is cleaned.
func RaiseAlarms(ctx context.Context, t *Tx, list []Alarm) error {
	if len(list) == 0 {
		return nil
	}
	seq, err := LockFeed(ctx, t, alarmFeed)
	if err != nil {
		return err
	}
	for _, a := range list {
		a.Kind, a.Subject = Clean(a.Kind), Clean(a.Subject)
		var is int
		same, err := One(ctx, t, sameAlarmSQL, []any{a.Of, a.Kind, a.Subject, int64(a.At - sameAlarmWindow)}, &is)
		if err != nil {
			return err
		}
		if same {
			continue
		}
		seq++
		if _, err := t.Exec(ctx, insertAlarmSQL, seq, a.Of, a.Kind, a.Subject, int64(a.At)); err != nil {
			return err
		}
	}
	end := EndFeed(alarmFeed, seq)
	_, err = t.Exec(ctx, end.SQL, end.Args...)
	return err
}

// RaiseAlarm keeps an alarm in a transaction of its own.
func (d *DB) RaiseAlarm(ctx context.Context, a Alarm) error {
	for _, text := range []struct{ member, text string }{{"of", a.Of}, {"kind", a.Kind}, {"subject", a.Subject}} {
		if err := CheckIdentifier(text.member, text.text); err != nil {
			return err
		}
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error { return RaiseAlarms(ctx, t, []Alarm{a}) })
}

// Alarms gives alarms after seq after, in order.
func (d *DB) Alarms(ctx context.Context, after int64, limit int) ([]Alarm, error) {
	return readAlarms(ctx, d, listAlarmsSQL, after, limit)
}

// OpenAlarms gives alarms after seq after that nobody has acknowledged, in order.
func (d *DB) OpenAlarms(ctx context.Context, after int64, limit int) ([]Alarm, error) {
	return readAlarms(ctx, d, openAlarmsSQL, after, limit)
}

// AlarmsOf gives the alarms about some merchants after seq after, in order, and the
// number to read on after.
func (d *DB) AlarmsOf(ctx context.Context, merchants []string, open bool, after int64, limit int) ([]Alarm, int64, error) {
	text := alarmsOfSQL
	if open {
		text = openAlarmsOfSQL
	}
	return FeedOf(ctx, d, alarmFeed, merchants, after, limit, func(a Alarm) int64 { return a.Seq },
		func(m string) ([]Alarm, error) { return readAlarms(ctx, d, text, m, after, limit) })
}

// Alarm gives one alarm.
func (d *DB) Alarm(ctx context.Context, seq int64) (Alarm, error) {
	return alarm(ctx, d, seq)
}

func alarm(ctx context.Context, q Querier, seq int64) (Alarm, error) {
	list, err := readAlarms(ctx, q, readAlarmsSQL+`seq = $1`, seq)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Alarm{}, err
	}
	return list[0], nil
}

func readAlarms(ctx context.Context, q Querier, text string, args ...any) ([]Alarm, error) {
	var list []Alarm
	err := Each(ctx, q, text, args, func(r Rows) error {
		var a Alarm
		err := r.Scan(&a.Seq, &a.Of, &a.Kind, &a.Subject, &a.At, &a.Acked, &a.AckedBy)
		list = append(list, a)
		return err
	})
	return list, err
}

// AckAlarm acknowledges an alarm. Repeating it changes nothing. It does not end the
// hour in which the same alarm is not raised again.
func (d *DB) AckAlarm(ctx context.Context, seq int64, by string, now Millis) (a Alarm, err error) {
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := t.Exec(ctx, ackAlarmSQL, seq, int64(now), by); err != nil {
			return err
		}
		a, err = alarm(ctx, t, seq)
		return err
	})
	return a, err
}
