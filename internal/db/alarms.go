package db

import (
	"context"
	"strings"

	"countersign/client"
)

// Alarm is something that a person should check.
type Alarm struct {
	Seq     int64
	Of      string // the merchant that it is about; empty in a merchant's database
	Kind    client.AlarmKind
	Subject string // what it is about, such as an id
	At      Millis
	Acked   Millis // when somebody acknowledged it; 0: nobody has
	AckedBy string // the token

	AckedName string // its name
	AckedNote string // what the person noted; may be empty
}

// AlarmFilter selects alarms; empty members select all.
type AlarmFilter struct {
	Of    []string // merchants; nil: all. An empty list selects none.
	Kind  client.AlarmKind
	State client.AlarmState
}

// AlarmCount is how many alarms of a kind there are.
type AlarmCount struct{ Raised, Open int64 }

// The kept numbers of alarms by kind; see Tx.Counted.
const (
	countRaised = "alarms/"
	countOpen   = "alarms-open/"
)

// FeedOfAlarms is the feed of alarms. Transactions raise their alarms before they
// take numbers from the feeds of their end.
const FeedOfAlarms = "alarms"

// sameAlarmWindow is how long the same alarm is not raised again.
const sameAlarmWindow Millis = 3_600_000

const (
	insertAlarmSQL = `INSERT INTO alarms (seq, merchant, kind, subject, at) VALUES ($1, $2, $3, $4, $5)`
	sameAlarmSQL   = `SELECT 1 FROM alarms WHERE merchant = $1 AND kind = $2 AND subject = $3 AND at > $4 AND acked = 0 LIMIT 1`
	readAlarmsSQL  = `SELECT seq, merchant, kind, subject, at, acked, acked_by, acked_name, acked_note FROM alarms`
	ackAlarmSQL    = `UPDATE alarms SET acked = $2, acked_by = $3, acked_name = $4, acked_note = $5 WHERE seq = $1 AND acked = 0`
)

// RaiseAlarms keeps alarms as part of t. An alarm that repeats one of the last hour, which
// nobody has acknowledged, is not kept again. Text that cannot be stored is cleaned.
func RaiseAlarms(ctx context.Context, t *Tx, list []Alarm) error {
	if len(list) == 0 {
		return nil
	}
	seq, err := LockFeed(ctx, t, FeedOfAlarms)
	if err != nil {
		return err
	}
	var raised []Statement
	for _, a := range list {
		a.Subject = Clean(a.Subject)
		var is int
		same, err := One(ctx, t, sameAlarmSQL, []any{a.Of, string(a.Kind), a.Subject, int64(a.At - sameAlarmWindow)}, &is)
		if err != nil {
			return err
		}
		if same {
			continue
		}
		seq++
		if _, err := t.Exec(ctx, insertAlarmSQL, seq, a.Of, string(a.Kind), a.Subject, int64(a.At)); err != nil {
			return err
		}
		raised = t.Counted(t.Counted(raised, countRaised+string(a.Kind), 1), countOpen+string(a.Kind), 1)
	}
	return t.Batch(ctx, append(raised, EndFeed(FeedOfAlarms, seq)))
}

// RaiseAlarm keeps an alarm in a transaction of its own.
func (d *DB) RaiseAlarm(ctx context.Context, a Alarm) error {
	for _, text := range []struct{ member, text string }{{"of", a.Of}, {"kind", string(a.Kind)}, {"subject", a.Subject}} {
		if err := CheckIdentifier(text.member, text.text); err != nil {
			return err
		}
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error { return RaiseAlarms(ctx, t, []Alarm{a}) })
}

const everRaisedSQL = `SELECT 1 FROM alarms WHERE merchant = $1 AND kind = $2 AND subject = $3 LIMIT 1`

// RaiseAlarmOnce is RaiseAlarm for what is told a single time, whether or not it was acknowledged.
func (d *DB) RaiseAlarmOnce(ctx context.Context, a Alarm) error {
	var is int
	if ever, err := One(ctx, d, everRaisedSQL, []any{a.Of, string(a.Kind), a.Subject}, &is); err != nil || ever {
		return err
	}
	return d.RaiseAlarm(ctx, a)
}

// Alarms gives alarms after seq after, in order.
func (d *DB) Alarms(ctx context.Context, after int64, limit int) ([]Alarm, error) {
	return AlarmFilter{}.read(ctx, d, nil, after, limit)
}

// AlarmsWhere gives the alarms after seq after that f selects, in order, and the number
// to read on after.
func (d *DB) AlarmsWhere(ctx context.Context, f AlarmFilter, after int64, limit int) (list []Alarm, next int64, err error) {
	if f.Of != nil {
		return FeedOf(ctx, d, FeedOfAlarms, f.Of, after, limit, func(a Alarm) int64 { return a.Seq },
			func(m string) ([]Alarm, error) { return f.read(ctx, d, &m, after, limit) })
	}
	list, err = f.read(ctx, d, nil, after, limit)
	if next = after; len(list) > 0 {
		next = list[len(list)-1].Seq
	}
	return list, next, err
}

// read gives the alarms about one merchant, nil: about all.
func (f AlarmFilter) read(ctx context.Context, q Querier, of *string, after int64, limit int) ([]Alarm, error) {
	var c Conditions
	if of != nil {
		c.Add("merchant = ?", *of)
	}
	if f.Kind != "" {
		c.Add("kind = ?", string(f.Kind))
	}
	c.Add("seq > ?", after)
	switch f.State { // literals: each has an index
	case client.AlarmOpen:
		c.Add("acked = 0")
	case client.AlarmAcked:
		c.Add("acked > 0")
	}
	text := readAlarmsSQL + c.Where() + " ORDER BY seq LIMIT CAST(" + c.Arg(limit) + " AS BIGINT)"
	return List(ctx, q, text, c.Args, scanAlarm)
}

// AlarmCounts gives how many alarms there are by kind.
func (d *DB) AlarmCounts(ctx context.Context) (map[client.AlarmKind]AlarmCount, error) {
	counts, err := Counts(ctx, d)
	kinds := map[client.AlarmKind]AlarmCount{}
	for name, n := range counts {
		if kind, ok := strings.CutPrefix(name, countRaised); ok {
			kinds[client.AlarmKind(kind)] = AlarmCount{n, counts[countOpen+kind]}
		}
	}
	return kinds, err
}

// Alarm gives one alarm.
func (d *DB) Alarm(ctx context.Context, seq int64) (Alarm, error) {
	return alarm(ctx, d, seq)
}

func alarm(ctx context.Context, q Querier, seq int64) (Alarm, error) {
	return Find(ctx, q, readAlarmsSQL+` WHERE seq = $1`, []any{seq}, scanAlarm)
}

func scanAlarm(r Rows) (a Alarm, err error) {
	err = r.Scan(&a.Seq, &a.Of, &a.Kind, &a.Subject, &a.At, &a.Acked, &a.AckedBy, &a.AckedName, &a.AckedNote)
	return a, err
}

// AckAlarm acknowledges an alarm for a person, with the token by, a name and a note.
// Repeating it changes nothing: the first acknowledgement stands. It does not end the
// hour in which the same alarm is not raised again.
func (d *DB) AckAlarm(ctx context.Context, seq int64, by, name, note string, now Millis) (a Alarm, err error) {
	if err := CheckTexts("by", by, "name", name, "note", note); err != nil {
		return Alarm{}, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		n, err := t.Exec(ctx, ackAlarmSQL, seq, int64(now), by, name, note)
		if err != nil {
			return err
		}
		if a, err = alarm(ctx, t, seq); err != nil {
			return err
		}
		if n == 1 && d.end.Acked != nil {
			if err := d.end.Acked(ctx, t, a); err != nil {
				return err
			}
		}
		return t.Count(ctx, countOpen+string(a.Kind), -n)
	})
	return a, err
}
