package db

import (
	"context"
	"time"

	"countersign/client"
)

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
	claimAlarmSQL = `SELECT ` + alarmColumns + `, posted, attempts FROM alarms WHERE due <= $1 ORDER BY due, seq LIMIT 1{skip}`

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
	var is int
	if found, err = One(ctx, d, waitingAlarmSQL, []any{int64(now)}, &is); err != nil || !found {
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
