package db

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"countersign/client"
)

// AlarmPost is a message about an alarm that one process is to post.
type AlarmPost struct {
	Destination string
	Alarm       Alarm // as it was then; never acknowledged
	At          Millis
	Step        int64 // see Type
	Attempts    int   // this one included
}

// The steps of an alarm that are posted; those between are powers of ten.
const (
	stepEnded  = 0
	stepRaised = 1
)

// Type is what the message tells.
func (p AlarmPost) Type() client.AlarmMessage {
	switch p.Step {
	case stepEnded:
		return client.MessageAlarmEnded
	case stepRaised:
		return client.MessageAlarmRaised
	}
	return client.MessageAlarmGrown
}

// goneAfter is how long a destination is remembered after a process last named it. After that its
// flag was changed or removed, and nothing more is kept for it.
const goneAfter Millis = 7 * 24 * 3_600_000

const (
	addAlarmPostsSQL = `
INSERT INTO alarm_posts (destination, alarm, step, place, at, content)
SELECT name, CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS TEXT) FROM alarm_destinations WHERE seen > $6
ON CONFLICT (destination, alarm, step) DO NOTHING`

	seenSQL = `INSERT INTO alarm_destinations (name, seen) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET seen = excluded.seen`

	dropAlarmPostsSQL = `DELETE FROM alarm_posts WHERE destination IN (SELECT name FROM alarm_destinations WHERE seen <= $1)`

	dropDestinationsSQL = `DELETE FROM alarm_destinations WHERE seen <= $1`

	waitingAlarmSQL = `SELECT 1 FROM alarm_posts WHERE destination = $1 AND due <= $2 LIMIT 1`

	// Messages about one alarm go in order, so that nobody reads of its end before its beginning.
	claimAlarmSQL = `
SELECT alarm, step, at, content, attempts FROM alarm_posts p WHERE destination = $1 AND due <= $2
	AND NOT EXISTS (SELECT 1 FROM alarm_posts e WHERE e.destination = p.destination AND e.alarm = p.alarm AND e.place < p.place)
ORDER BY due, place LIMIT 1{skip}`

	leaseAlarmSQL = `UPDATE alarm_posts SET due = $4, attempts = attempts + 1 WHERE destination = $1 AND alarm = $2 AND step = $3`

	alarmPostedSQL = `DELETE FROM alarm_posts WHERE destination = $1 AND alarm = $2 AND step = $3`

	alarmAgainSQL = `UPDATE alarm_posts SET due = $5 WHERE destination = $1 AND alarm = $2 AND step = $3 AND attempts = $4`
)

// post is the statement that keeps a message about a step of a for each destination.
func (a Alarm) post(step int64, at Millis, place int64) Statement {
	a.Acked, a.AckedBy, a.AckedName, a.AckedNote = 0, "", "", ""
	content, _ := json.Marshal(a) // texts and numbers
	return Statement{SQL: addAlarmPostsSQL, Args: []any{a.Seq, step, place, int64(at), string(content), int64(at - goneAfter)}}
}

// PostAlarmsTo keeps messages about alarms for a destination from now on, and forgets the
// destinations that no process has named for a week. Each process calls it from time to time.
func (d *DB) PostAlarmsTo(ctx context.Context, destination string, now Millis) error {
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		// Without the lock an alarm that is being raised could be kept for a forgotten destination.
		if _, err := LockFeed(ctx, t, FeedOfAlarms); err != nil {
			return err
		}
		gone := int64(now - goneAfter)
		return t.Batch(ctx, []Statement{{SQL: seenSQL, Args: []any{destination, int64(now)}},
			{SQL: dropAlarmPostsSQL, Args: []any{gone}}, {SQL: dropDestinationsSQL, Args: []any{gone}}})
	})
}

var errNotRead = errors.New("an alarm that is to be posted cannot be read")

// ClaimAlarmPost returns the next message that is due for a destination; found is false if there
// is none. No other process gets it before the lease ends.
func (d *DB) ClaimAlarmPost(ctx context.Context, destination string, now Millis, lease time.Duration) (p AlarmPost, found bool, err error) {
	var is int
	if found, err = One(ctx, d, waitingAlarmSQL, []any{destination, int64(now)}, &is); err != nil || !found {
		return p, false, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		p = AlarmPost{Destination: destination}
		var seq int64
		var content string
		if found, err = One(ctx, t, claimAlarmSQL, []any{destination, int64(now)}, &seq, &p.Step, &p.At, &content, &p.Attempts); err != nil || !found {
			return err
		}
		p.Attempts++
		if json.Unmarshal([]byte(content), &p.Alarm) != nil {
			return errNotRead
		}
		_, err = t.Exec(ctx, leaseAlarmSQL, destination, seq, p.Step, int64(now)+lease.Milliseconds())
		return err
	})
	return p, found && err == nil, err
}

// SettleAlarmPost ends an attempt: the message was posted, or is due again at again.
func (d *DB) SettleAlarmPost(ctx context.Context, p AlarmPost, posted bool, again Millis) error {
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if posted {
			_, err := t.Exec(ctx, alarmPostedSQL, p.Destination, p.Alarm.Seq, p.Step)
			return err
		}
		_, err := t.Exec(ctx, alarmAgainSQL, p.Destination, p.Alarm.Seq, p.Step, p.Attempts, int64(again))
		return err
	})
}
