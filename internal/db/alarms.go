package db

import (
	"context"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"countersign/client"
)

// AlarmCount says how often a kind of alarm was raised, and how many of its rows are open.
type AlarmCount struct{ Raised, Open int64 }

// FeedOfAlarms is the feed that numbers the rows of alarms. A transaction raises and ends its alarms before it takes
// numbers from the feeds that it writes at its end.
const FeedOfAlarms = "alarms"

const (
	mostExamples = 5
	exampleRunes = 500

	alarmColumns = `seq, merchant, kind, subject, first, last, number, examples, acked, acked_by, acked_name, acked_note, ended, ended_text`

	openAlarmSQL = `
SELECT ` + alarmColumns + ` FROM alarms WHERE kind = $1 AND merchant = $2 AND subject = $3 AND acked = 0 AND ended = 0`

	insertAlarmSQL = `
INSERT INTO alarms (seq, merchant, kind, subject, first, last, number, examples, due) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $6)`

	growAlarmSQL = `
UPDATE alarms SET number = $2, last = $3, examples = $4, due = CASE WHEN due = 4611686018427387904 AND $2 >= 10 * posted THEN $3 ELSE due END
WHERE seq = $1 AND acked = 0 AND ended = 0`

	standsSQL = `SELECT 1 FROM alarms WHERE kind = $1 AND merchant = $2 AND subject = $3 AND ended = 0 LIMIT 1`

	// $6 is the number of one row, and $7 is how often it was raised. 0 for $6 means any row.
	endAlarmSQL = `
UPDATE alarms SET ended = $4, ended_text = $5, due = CASE WHEN due = 4611686018427387904 THEN $4 ELSE due END
WHERE kind = $1 AND merchant = $2 AND subject = $3 AND ended = 0 AND (CAST($6 AS BIGINT) = 0 OR seq = $6 AND number = $7)`

	standingSQL = `SELECT ` + alarmColumns + ` FROM alarms WHERE kind {in}$1{end} AND ended = 0 ORDER BY seq`
)

// rowOf returns the key of the row that counts a.
func rowOf(a client.Alarm) (k alarmRow) {
	k = alarmRow{a.Merchant, a.Kind, ""}
	if a.Kind.BySubject() {
		k.subject = a.Subject
	}
	return k
}

type alarmRow struct {
	of      string
	kind    client.AlarmKind
	subject string
}

func (k alarmRow) args(more ...any) []any {
	return append([]any{string(k.kind), k.of, k.subject}, more...)
}

// examples returns the subjects of later followed by those of earlier.
func examples(later, earlier []string) []string {
	list := []string{}
	for _, text := range slices.Concat(later, earlier) {
		if text != "" && len(list) < mostExamples && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func example(text string) string {
	if utf8.RuneCountInString(text) <= exampleRunes {
		return text
	}
	return string([]rune(text)[:exampleRunes]) + "…"
}

// Together merges the alarms of each row into one, in the order in which the rows first appear. It may be merged
// again with later ones.
func Together(list []client.Alarm) (rows []client.Alarm) {
	at := map[alarmRow]int{}
	for _, a := range list {
		a.Subject = Clean(a.Subject)
		if len(a.Examples) == 0 {
			a.Examples = examples([]string{example(a.Subject)}, nil)
		}
		a.Last, a.Number = max(a.First, a.Last), max(a.Number, 1)
		i, known := at[rowOf(a)]
		if !known {
			at[rowOf(a)] = len(rows)
			rows = append(rows, a)
			continue
		}
		r := &rows[i]
		r.First, r.Last = min(r.First, a.First), max(r.Last, a.Last)
		r.Number += a.Number
		r.Examples = examples(a.Examples, r.Examples)
	}
	return rows
}

// RaiseAlarms stores alarms as part of t. An alarm with an open row is counted there. A row that a person has
// acknowledged, or that has ended, stays as it is, and a new row opens. Text that cannot be stored is cleaned.
func RaiseAlarms(ctx context.Context, t *Tx, list []client.Alarm) error {
	if len(list) == 0 {
		return nil
	}
	// The lock makes nodes raise alarms one after another, so that no row opens twice.
	seq, err := LockFeed(ctx, t, FeedOfAlarms)
	if err != nil {
		return err
	}
	for _, a := range Together(list) {
		row := rowOf(a)
		open, err := List(ctx, t, openAlarmSQL, row.args(), scanAlarm)
		if err != nil {
			return err
		}
		if len(open) > 0 {
			is := open[0]
			n, err := t.Exec(ctx, growAlarmSQL, is.Seq, is.Number+a.Number, int64(max(is.Last, a.Last)),
				jsonOf(examples(a.Examples, is.Examples)))
			if err != nil {
				return err
			}
			if n == 1 { // otherwise somebody has acknowledged it meanwhile
				continue
			}
		}
		seq++
		if _, err := t.Exec(ctx, insertAlarmSQL, seq, a.Merchant, string(a.Kind), row.subject, int64(a.First), int64(a.Last),
			a.Number, jsonOf(a.Examples)); err != nil {
			return err
		}
	}
	return t.Batch(ctx, []Statement{EndFeed(FeedOfAlarms, seq)})
}

func jsonOf(list []string) string {
	text, _ := json.Marshal(list) // cannot fail: only texts
	return string(text)
}

// RaiseAlarm stores an alarm in a transaction of its own.
func (d *DB) RaiseAlarm(ctx context.Context, a client.Alarm) error {
	if err := CheckTexts("merchant", a.Merchant, "kind", string(a.Kind), "subject", a.Subject); err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error { return RaiseAlarms(ctx, t, []client.Alarm{a}) })
}

// RaiseNew raises the alarms of list that have no standing row. Each is raised once even if several nodes call it.
func (d *DB) RaiseNew(ctx context.Context, list []client.Alarm) error {
	list, err := notStanding(ctx, d, list)
	if err != nil || len(list) == 0 {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := LockFeed(ctx, t, FeedOfAlarms); err != nil {
			return err
		}
		list, err := notStanding(ctx, t, list)
		if err != nil {
			return err
		}
		return RaiseAlarms(ctx, t, list)
	})
}

func notStanding(ctx context.Context, q Querier, list []client.Alarm) (fresh []client.Alarm, err error) {
	for _, a := range list {
		stands, err := One(ctx, q, standsSQL, rowOf(a).args())
		if err != nil {
			return nil, err
		}
		if !stands {
			fresh = append(fresh, a)
		}
	}
	return fresh, nil
}

// EndAlarms ends the rows that stand for the alarms of list, including those that a person has acknowledged. They end
// at the time Ended of the alarm. For an alarm with a number it ends only that row, unless it was raised again
// meanwhile. If no row stands, it reads once and locks nothing.
func EndAlarms(ctx context.Context, t *Tx, list []client.Alarm) error {
	fresh, err := notStanding(ctx, t, list)
	if err != nil || len(fresh) == len(list) {
		return err
	}
	if _, err := LockFeed(ctx, t, FeedOfAlarms); err != nil {
		return err
	}
	more := make([]Statement, len(list))
	for i, a := range list {
		more[i] = Statement{SQL: endAlarmSQL, Args: rowOf(a).args(int64(a.Ended), a.Kind.Ended(), a.Seq, a.Number)}
	}
	return t.Batch(ctx, more)
}

// StandingAlarms returns the rows of some kinds that have not ended, the oldest first.
func (d *DB) StandingAlarms(ctx context.Context, kinds ...client.AlarmKind) ([]client.Alarm, error) {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = string(k)
	}
	return List(ctx, d, standingSQL, []any{d.dialect.List(list)}, scanAlarm)
}

// EndStanding ends rows that StandingAlarms returned, unless they were raised again meanwhile.
func (d *DB) EndStanding(ctx context.Context, list []client.Alarm, now Millis) error {
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		list[i].Ended = now
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error { return EndAlarms(ctx, t, list) })
}

// AlarmsWhere returns the alarms of the merchants of that f selects, the newest first. It begins below seq before, or
// with the newest if before is 0. If of is nil, all merchants count. next is 0 at the end. A page may have fewer
// alarms than limit and still have a next page.
func (d *DB) AlarmsWhere(ctx context.Context, of []string, f client.AlarmFilter, limit int,
	before int64) (list []client.Alarm, next int64, err error) {
	c := alarmConditions(d.dialect, of, f, before)
	return ReadNumbered(ctx, d, "alarms", alarmColumns, c, 0, limit,
		func(a client.Alarm) int64 { return a.Seq }, scanAlarm)
}

// alarmConditions returns the conditions of a list and chooses its index: open rows are few.
func alarmConditions(d *Dialect, of []string, f client.AlarmFilter, before int64) *Conditions {
	c := &Conditions{}
	merchant, kind := f.Merchant != "", f.Kind != ""
	switch {
	case f.State == client.AlarmOpen:
		c.Add("acked = 0 AND ended = 0") // literals, as in the partial index
	case merchant:
		c.Add("merchant = ?", f.Merchant)
		merchant = false
	case kind:
		c.Add("kind = ?", string(f.Kind))
		kind = false
	}
	if before > 0 {
		c.Add("seq < ?", before)
	}
	c.EndWalk()
	if merchant {
		c.Add("merchant || '' = ?", f.Merchant)
	}
	if kind {
		c.Add("kind || '' = ?", string(f.Kind))
	}
	switch f.State {
	case client.AlarmAcked:
		c.Add("acked > 0")
	case client.AlarmEnded:
		c.Add("ended > 0")
	}
	if of != nil {
		c.Add("merchant || '' {in}?{end}", d.List(of))
	}
	return c
}

// Rows of alarms are few, so they are counted and not kept counted.
const alarmCountsSQL = `
SELECT kind, CAST(SUM(number) AS BIGINT), SUM(CASE WHEN acked = 0 AND ended = 0 THEN 1 ELSE 0 END) FROM alarms GROUP BY kind`

// AlarmCounts returns the counts of alarms by kind.
func (d *DB) AlarmCounts(ctx context.Context) (map[client.AlarmKind]AlarmCount, error) {
	kinds := map[client.AlarmKind]AlarmCount{}
	err := Each(ctx, d, alarmCountsSQL, nil, func(r Rows) error {
		var kind client.AlarmKind
		var n AlarmCount
		err := r.Scan(&kind, &n.Raised, &n.Open)
		kinds[kind] = n
		return err
	})
	return kinds, err
}

// Alarm returns one alarm.
func (d *DB) Alarm(ctx context.Context, seq int64) (client.Alarm, error) { return alarm(ctx, d, seq) }

func alarm(ctx context.Context, q Querier, seq int64) (client.Alarm, error) {
	return Find(ctx, q, `SELECT `+alarmColumns+` FROM alarms WHERE seq = $1`, []any{seq}, scanAlarm)
}

func scanAlarm(r Rows) (client.Alarm, error) { return scanAlarmWith(r) }

// scanAlarmWith scans the columns of an alarm, and then more.
func scanAlarmWith(r Rows, more ...any) (a client.Alarm, err error) {
	err = r.Scan(append([]any{&a.Seq, &a.Merchant, &a.Kind, &a.Subject, &a.First, &a.Last, &a.Number, JSON(&a.Examples),
		&a.Acked, &a.AckedBy, &a.AckedName, &a.AckedNote, &a.Ended, &a.EndedText}, more...)...)
	if a.Text = a.Kind.Text(); a.Subject == "" && len(a.Examples) > 0 {
		a.Subject = a.Examples[0]
	}
	return a, err
}

const ackAlarmSQL = `
UPDATE alarms SET acked = $2, acked_by = $3, acked_name = $4, acked_note = $5 WHERE seq = $1 AND acked = 0 RETURNING ` + alarmColumns

// AckAlarm acknowledges the alarm with the number of ack. ack says when, by which token and with what note. Repeating
// it changes nothing: the first acknowledgement stands. An alarm that is raised after it opens another row.
func (d *DB) AckAlarm(ctx context.Context, ack client.Alarm) (a client.Alarm, err error) {
	if err := CheckTexts("by", ack.AckedBy, "name", ack.AckedName, "note", ack.AckedNote); err != nil {
		return a, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		list, err := List(ctx, t, ackAlarmSQL, []any{ack.Seq, int64(ack.Acked), ack.AckedBy, ack.AckedName,
			ack.AckedNote}, scanAlarm)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			a, err = alarm(ctx, t, ack.Seq)
			return err
		}
		if a = list[0]; d.end.Acked != nil {
			return d.end.Acked(ctx, t, a)
		}
		return nil
	})
	return a, err
}

// AlarmPost is a message about an alarm that one process must post. An alarm has these messages, in this order: it
// was raised; its number has grown tenfold since the last message; it has ended.
type AlarmPost struct {
	Alarm    client.Alarm // as it is now, without who acknowledged it
	Event    client.AlarmMessage
	Step     int64 // the greatest power of ten that its number reaches
	Attempts int   // including this one

	lease Millis
}

// At returns when the event of the message happened.
func (p AlarmPost) At() Millis {
	switch p.Event {
	case client.MessageAlarmRaised:
		return p.Alarm.First
	case client.MessageAlarmGrown:
		return p.Alarm.Last
	}
	return p.Alarm.Ended
}

// postedFor is how long a message is tried. After that it is dropped.
const postedFor Millis = 7 * 24 * 3_600_000

// due is when the next message about an alarm must be posted. While a process posts it, due is the end of that
// process's lease. Never means that there is no message. posted is the step of the last message, or 0 if there was
// none.
const (
	claimAlarmSQL = `SELECT ` + alarmColumns +
		`, posted, attempts FROM alarms WHERE due <= $1 ORDER BY due, seq LIMIT 1{skip}`

	leaseAlarmSQL = `UPDATE alarms SET due = $2, attempts = attempts + 1 WHERE seq = $1`

	dropAlarmPostsSQL = `UPDATE alarms SET due = 4611686018427387904 WHERE due <= $1 AND last <= $2 AND ended <= $2`

	// What has happened meanwhile is part of the next message.
	alarmPostedSQL = `
UPDATE alarms SET posted = CAST($3 AS BIGINT), attempts = 0, due = CASE WHEN $4 <> 'alarm.ended' AND (ended > 0 OR number >= 10 * CAST($3 AS BIGINT)) THEN last ELSE 4611686018427387904 END
WHERE seq = $1 AND due = $2`

	alarmAgainSQL = `UPDATE alarms SET due = $3 WHERE seq = $1 AND due = $2`

	waitingAlarmSQL = `SELECT 1 FROM alarms WHERE due <= $1 LIMIT 1`
)

// ClaimAlarmPost returns the next message that is due. found is false if there is none. No other process gets the
// message before the lease ends.
func (d *DB) ClaimAlarmPost(ctx context.Context, now Millis, lease time.Duration) (p AlarmPost, found bool, err error) {
	if found, err = One(ctx, d, waitingAlarmSQL, []any{int64(now)}); err != nil || !found {
		return p, false, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		found = false
		p = AlarmPost{Step: 1, lease: now + Millis(lease.Milliseconds())}
		if _, err := t.Exec(ctx, dropAlarmPostsSQL, int64(now), int64(now-postedFor)); err != nil {
			return err
		}
		var posted int64
		list, err := List(ctx, t, claimAlarmSQL, []any{int64(now)}, func(r Rows) (a client.Alarm, err error) {
			return scanAlarmWith(r, &posted, &p.Attempts)
		})
		if err != nil || len(list) == 0 {
			return err
		}
		found, p.Alarm = true, list[0]
		a := &p.Alarm
		a.Acked, a.AckedBy, a.AckedName, a.AckedNote = 0, "", "", ""
		for a.Number >= 10*p.Step {
			p.Step *= 10
		}
		switch {
		case posted == 0:
			p.Event = client.MessageAlarmRaised
		case a.Ended != 0:
			p.Event = client.MessageAlarmEnded
		default:
			p.Event = client.MessageAlarmGrown
		}
		p.Attempts++
		_, err = t.Exec(ctx, leaseAlarmSQL, a.Seq, int64(p.lease))
		return err
	})
	return p, found && err == nil, err
}

// SettleAlarmPost ends an attempt: the message was posted, or is due again at again. It does nothing once the lease
// has ended.
func (d *DB) SettleAlarmPost(ctx context.Context, p AlarmPost, posted bool, again Millis) error {
	text, args := alarmAgainSQL, []any{p.Alarm.Seq, int64(p.lease), int64(again)}
	if posted {
		text, args = alarmPostedSQL, []any{p.Alarm.Seq, int64(p.lease), p.Step, string(p.Event)}
	}
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		_, err := t.Exec(ctx, text, args...)
		return err
	})
}
