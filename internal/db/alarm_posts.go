package db

import (
	"context"
	"time"
)

// AlarmPost is an alarm that one process is to post.
type AlarmPost struct {
	Alarm    Alarm
	Attempts int // this one included
}

// alarm_posts has a row for each alarm that is or was to be posted. Alarms have no gaps
// in their numbers and appear in order, so what has no row yet has higher ones.
const (
	// Without any row: what was raised before is not posted. Where nothing was, the row is
	// of number 0, so that the first alarm is not taken for an earlier one after a crash.
	beginAlarmPostsSQL = `
INSERT INTO alarm_posts (seq, done) SELECT last_seq, 1 FROM feeds WHERE name = $1
ON CONFLICT (seq) DO NOTHING`

	waitingAlarmSQL = `
SELECT 1 FROM alarms WHERE seq > (SELECT COALESCE(MAX(seq), 0) FROM alarm_posts)
UNION ALL SELECT 1 FROM alarm_posts WHERE done = 0 AND due <= $1
LIMIT 1`

	newAlarmPostsSQL = `
INSERT INTO alarm_posts (seq) SELECT seq FROM alarms WHERE seq > (SELECT COALESCE(MAX(seq), 0) FROM alarm_posts)
ON CONFLICT (seq) DO NOTHING`

	claimAlarmSQL = `
UPDATE alarm_posts SET due = $1, attempts = attempts + 1
WHERE seq IN (SELECT seq FROM alarm_posts WHERE done = 0 AND due <= $2 ORDER BY due, seq LIMIT 1{skip})
RETURNING seq, attempts`

	alarmPostedSQL = `UPDATE alarm_posts SET done = 1 WHERE seq = $1`

	alarmAgainSQL = `UPDATE alarm_posts SET due = $3 WHERE seq = $1 AND attempts = $2 AND done = 0`
)

// BeginAlarmPosts makes the next alarm the first to be posted, unless posting has begun
// before: then it goes on where it was.
func (d *DB) BeginAlarmPosts(ctx context.Context) error {
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		var is int
		begun, err := One(ctx, t, `SELECT 1 FROM alarm_posts LIMIT 1`, nil, &is)
		if err != nil || begun {
			return err
		}
		_, err = t.Exec(ctx, beginAlarmPostsSQL, FeedOfAlarms)
		return err
	})
}

// ClaimAlarmPost gives an alarm that is due to be posted; none is left if found is
// false. No other process gets it until lease has ended.
func (d *DB) ClaimAlarmPost(ctx context.Context, now Millis, lease time.Duration) (p AlarmPost, found bool, err error) {
	var is int
	if found, err = One(ctx, d, waitingAlarmSQL, []any{int64(now)}, &is); err != nil || !found {
		return p, false, err
	}
	err = d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if _, err := t.Exec(ctx, newAlarmPostsSQL); err != nil {
			return err
		}
		var seq int64
		if found, err = One(ctx, t, claimAlarmSQL, []any{int64(now) + lease.Milliseconds(), int64(now)}, &seq, &p.Attempts); err != nil || !found {
			return err
		}
		p.Alarm, err = alarm(ctx, t, seq)
		return err
	})
	return p, found && err == nil, err
}

// SettleAlarmPost ends an attempt: the alarm was posted, or is due again at again.
func (d *DB) SettleAlarmPost(ctx context.Context, p AlarmPost, posted bool, again Millis) error {
	return d.Write(ctx, func(ctx context.Context, t *Tx) error {
		if posted {
			_, err := t.Exec(ctx, alarmPostedSQL, p.Alarm.Seq)
			return err
		}
		_, err := t.Exec(ctx, alarmAgainSQL, p.Alarm.Seq, p.Attempts, int64(again))
		return err
	})
}
