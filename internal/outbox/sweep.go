package outbox

import (
	"context"
	"slices"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// Swept is what a Sweep did.
type Swept struct {
	Lost    []string // callbacks whose lease was lost; pending again
	Expired []string // withdrawals that expired
	Lapsed  []string // confirmed withdrawals that were not released in time
	More    bool     // a bound was reached: sweep again soon
}

// sweepMost is how many rows each part of a sweep handles at most.
const sweepMost = 500

// swept is a row that a sweep found.
type swept struct {
	merchant, id string
	number       int
	lane         countersign.Lane
}

// callback returns the id of the callback. For type 2 it is also the withdrawal's id.
func (f swept) callback() string { return joinID(f.merchant, f.id) }

func scanSwept(r db.Rows) (f swept, err error) {
	err = r.Scan(&f.merchant, &f.id, &f.number, &f.lane)
	return f, err
}

// Sweep makes callbacks with lost leases pending again. It expires withdrawals past their deadline together with
// their callbacks, lets confirmed ones lapse, and repairs lanes after a crash between two statements. One call does a
// bounded amount of work. A lost lease does not count against the callback's schedule. Its attempt is recorded only if
// its result comes late.
func (o *Outbox) Sweep(ctx context.Context, now db.Millis) (done Swept, err error) {
	// Expiry comes first, so that an expired callback does not become pending again.
	for _, part := range []func(context.Context, db.Millis, *Swept) error{
		o.sweepWithdrawals, o.sweepDeadlines, o.sweepLapsed, o.sweepLeases, o.sweepLanes,
	} {
		if err := part(ctx, now, &done); err != nil {
			return done, err
		}
	}
	if err := o.sweepAlarms(ctx, now); err != nil {
		return done, err
	}
	return done, o.FoldCounts(ctx)
}

// sweepAlarms raises and ends the alarms that depend on the clock, every half minute. The first call of a process
// ignores overdue work, which may have waited because no process ran.
func (o *Outbox) sweepAlarms(ctx context.Context, now db.Millis) error {
	o.swept.mu.Lock()
	last := o.swept.looked
	due := now < last || now-last >= minute/2
	if due {
		o.swept.looked = now
	}
	o.swept.mu.Unlock()
	if !due {
		return nil
	}
	if last != 0 {
		if err := o.sweepOverdue(ctx, now); err != nil {
			return err
		}
	}
	return o.sweepHealth(ctx, now)
}

// ReclaimAll ends every lease at once and returns how many it ended. It does nothing if another process can have the
// database open.
func (o *Outbox) ReclaimAll(ctx context.Context, now db.Millis) (int, error) {
	if o.Dialect().Shared {
		return 0, nil
	}
	done := Swept{More: true}
	for done.More {
		done.More = false
		if err := o.endLeases(ctx, db.Never, now, &done); err != nil {
			return len(done.Lost), err
		}
	}
	return len(done.Lost), nil
}

const lateWithdrawalsSQL = `
SELECT merchant, id, 0, 1 FROM withdrawals WHERE decision = '' AND deadline <= $1 AND restored = 0 ORDER BY deadline LIMIT CAST($2 AS BIGINT)`

// overdueNow is the guard of an expiry.
const overdueNow = "deadline <= $3 AND restored = 0"

func (o *Outbox) sweepWithdrawals(ctx context.Context, now db.Millis, done *Swept) (err error) {
	done.Expired, err = o.sweepEach(ctx, lateWithdrawalsSQL, now, done,
		func(ctx context.Context, t *db.Tx, f swept) (bool, error) {
			return o.endWithdrawal(ctx, t, f.merchant, f.id, client.WithdrawalExpired, client.ReasonDeadline, overdueNow, now)
		})
	return err
}

const (
	lapsedSQL = `
SELECT merchant, id, 0, 1 FROM withdrawals WHERE state = 'confirmed' AND release_by <= $1 AND restored = 0 ORDER BY release_by LIMIT CAST($2 AS BIGINT)`

	lapseSQL = `
UPDATE withdrawals SET state = 'lapsed', ended = $3
WHERE merchant = $1 AND id = $2 AND state = 'confirmed' AND release_by <= $3 AND restored = 0`
)

// sweepLapsed ends confirmed withdrawals that were not released in time, even while releases are stopped. Release
// refuses them from that time on, whether they were swept or not.
func (o *Outbox) sweepLapsed(ctx context.Context, now db.Millis, done *Swept) (err error) {
	done.Lapsed, err = o.sweepEach(ctx, lapsedSQL, now, done, func(ctx context.Context, t *db.Tx, f swept) (bool, error) {
		_, lapsed, err := o.endConfirmed(ctx, t, f.merchant, f.id, client.WithdrawalLapsed, now, lapseSQL)
		if err != nil || !lapsed {
			return false, err
		}
		return true, db.RaiseAlarms(ctx, t, []client.Alarm{{Merchant: f.merchant, Kind: client.AlarmLapsed,
			Subject: f.callback(), First: now}})
	})
	return err
}

// sweepEach ends the withdrawals that text finds, and returns the ids of those that it ended. Each has a transaction
// of its own, because they are few and none should wait for the others. While a restore is not reconciled, no
// withdrawal expires or lapses, because it may have been executed.
func (o *Outbox) sweepEach(ctx context.Context, text string, now db.Millis, done *Swept,
	end func(context.Context, *db.Tx, swept) (bool, error)) (ids []string, err error) {
	open, err := db.EpochIsOpen(ctx, o)
	if err != nil || open {
		return nil, err
	}
	found, err := o.find(ctx, done, text, int64(now), sweepMost)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		var ended bool
		err := o.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			ended, err = end(ctx, t, f)
			return err
		})
		if err != nil {
			return ids, err
		}
		if ended {
			ids = append(ids, f.callback())
		}
	}
	return ids, nil
}

// find returns the rows that text selects for scanSwept, in the order in which all transactions lock them. The last of
// args must be sweepMost.
func (o *Outbox) find(ctx context.Context, done *Swept, text string, args ...any) ([]swept, error) {
	list, err := db.List(ctx, o, text, args, scanSwept)
	done.More = done.More || len(list) == sweepMost
	return inOrder(list), err
}

func inOrder(list []swept) []swept {
	slices.SortFunc(list, func(a, b swept) int { return strings.Compare(a.callback(), b.callback()) })
	return list
}

const (
	lateCallbacksSQL = `
SELECT merchant, id, 0, lane FROM outbox
WHERE state = 'pending' AND lane <> 1 AND deadline < 4611686018427387904 AND deadline <= $1 ORDER BY deadline LIMIT CAST($2 AS BIGINT)`

	exhaustSQL = `
UPDATE outbox SET state = 'exhausted', last_reason = 'deadline', settled = $3
WHERE merchant = $1 AND id = $2 AND state = 'pending' AND deadline <= $3`
)

// sweepDeadlines ends callbacks other than type 2 whose deadline has passed.
func (o *Outbox) sweepDeadlines(ctx context.Context, now db.Millis, done *Swept) error {
	found, err := o.find(ctx, done, lateCallbacksSQL, int64(now), sweepMost)
	if err != nil || len(found) == 0 {
		return err
	}
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := o.changeRows(ctx, t, found, now, exhaustSQL,
			func(f swept) []any { return []any{f.merchant, f.id, int64(now)} },
			func(f swept, c laneChanges, feed *feedEntries) []db.Statement {
				t.Count(countOfEnded(countersign.LaneNotify, client.CallbackExhausted), 1)
				feed.alarm(f.merchant, client.AlarmExhausted, f.callback()+" "+string(client.ReasonDeadline), now)
				return nil
			})
		return err
	})
}

// changeRows changes the rows of list by the guarded statement text and returns those that it changed. follow returns
// the statements that follow from a change, and notes the change in its lane, the counts and the feeds.
func (o *Outbox) changeRows(ctx context.Context, t *db.Tx, list []swept, now db.Millis, text string,
	args func(swept) []any, follow func(swept, laneChanges, *feedEntries) []db.Statement) (changed []swept, err error) {
	n := make([]int64, len(list))
	updates := make([]db.Statement, len(list))
	for i, f := range list {
		updates[i] = db.Statement{SQL: text, Args: args(f), N: &n[i]}
	}
	if err := t.Batch(ctx, updates); err != nil {
		return nil, err
	}
	var more []db.Statement
	changes, feed := laneChanges{}, &feedEntries{}
	for i, f := range list {
		if n[i] == 1 { // else it is in another state by now
			changed, more = append(changed, f), append(more, follow(f, changes, feed)...)
		}
	}
	if err := t.Batch(ctx, more); err != nil {
		return nil, err
	}
	if err := o.changeLanes(ctx, t, changes, now); err != nil {
		return nil, err
	}
	return changed, feed.write(ctx, t)
}

// freed notes that f is no longer in flight but due now.
func (c laneChanges) freed(f swept, now db.Millis) {
	c.of(f.merchant, f.lane).Freed++
	c.back(f.merchant, f.lane, now)
}

const (
	lostLeasesSQL = `
SELECT merchant, id, attempts, lane FROM outbox
WHERE state = 'sending' AND lease_until > 0 AND lease_until <= $1 ORDER BY lease_until LIMIT CAST($2 AS BIGINT)`

	loseLeaseSQL = `
UPDATE outbox SET state = 'pending', due = $4, lease_until = 0, last_reason = '` + string(client.ReasonLost) + `'
WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3 AND lease_until <= $5`
)

func (o *Outbox) sweepLeases(ctx context.Context, now db.Millis, done *Swept) error {
	return o.endLeases(ctx, now, now, done)
}

// endLeases makes the callbacks pending whose lease ended at until or before.
func (o *Outbox) endLeases(ctx context.Context, until, now db.Millis, done *Swept) error {
	found, err := o.find(ctx, done, lostLeasesSQL, int64(until), sweepMost)
	if err != nil || len(found) == 0 {
		return err
	}
	var lost []swept
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
		lost, err = o.changeRows(ctx, t, found, now, loseLeaseSQL,
			func(f swept) []any { return []any{f.merchant, f.id, f.number, int64(now), int64(until)} },
			func(f swept, c laneChanges, _ *feedEntries) []db.Statement {
				c.freed(f, now)
				return nil
			})
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range lost {
		done.Lost = append(done.Lost, f.callback())
	}
	return nil
}

// lanesSQL reads two things of each lane. The first is whether something is due before next_due. The second is
// whether a clock that was since set back by more than clockStep wrote its times, or made a callback due later than
// any schedule allows.
const lanesSQL = `
SELECT merchant, lane, CASE WHEN next_due > ` + nextDueOfLaneSQL + ` THEN 1 ELSE 0 END,
	CASE WHEN served > $4 OR bucket > $4 OR open_until > $5 OR COALESCE((
		SELECT o.due FROM outbox o
		WHERE o.merchant = lanes.merchant AND o.lane = lanes.lane AND o.state = 'pending'
		ORDER BY o.due DESC LIMIT 1), 0) > $6 THEN 1 ELSE 0 END
FROM lanes WHERE merchant > $2 ORDER BY merchant, lane LIMIT CAST($3 AS BIGINT)`

// clockStep is the most by which the clocks of nodes may differ, in milliseconds.
const clockStep db.Millis = 1000

// longestDelay is longer than any delay between two attempts that a schedule allows, which is a week with its jitter.
const longestDelay db.Millis = 8 * 24 * 3_600_000

// pullInSQL makes callbacks due whose due time a clock wrote that was far ahead. They would otherwise wait for that
// time, perhaps for years.
const pullInSQL = `
UPDATE outbox SET due = $3 WHERE merchant = $1 AND state = 'pending' AND id IN (
	SELECT id FROM outbox WHERE merchant = $1 AND lane = $2 AND state = 'pending' AND due > $4
	ORDER BY due DESC LIMIT CAST($5 AS BIGINT))`

// resetClockSQL resets the times of a lane that are in the future, because its callbacks would wait for them.
const resetClockSQL = `
UPDATE lanes SET served = CASE WHEN served > $3 THEN 0 ELSE served END,
	bucket = CASE WHEN bucket > $3 THEN 0 ELSE bucket END, rate_ready = CASE WHEN bucket > $3 THEN 0 ELSE rate_ready END,
	open_until = CASE WHEN open_until > $4 THEN 0 ELSE open_until END
WHERE merchant = $1 AND lane = $2`

// sweepLanes checks some lanes; the next call continues after them. It repairs lanes whose work was overlooked or is
// delayed by a clock.
func (o *Outbox) sweepLanes(ctx context.Context, now db.Millis, done *Swept) error {
	o.swept.mu.Lock()
	defer o.swept.mu.Unlock()
	type found struct {
		laneKey
		waits, ahead int
	}
	var list []found
	last, n := "", 0
	const most = 2 * sweepMost // two lanes a merchant, so that no merchant is split
	latest, longestOpen, longestDue := now+clockStep, now+clockStep+BreakerMost, now+longestDelay
	err := db.Each(ctx, o, lanesSQL, []any{int64(now), o.swept.after, most, int64(latest), int64(longestOpen),
		int64(longestDue)}, func(r db.Rows) error {
		var f found
		err := r.Scan(&f.merchant, &f.lane, &f.waits, &f.ahead)
		if f.waits == 1 || f.ahead == 1 {
			list = append(list, f)
		}
		last, n = f.merchant, n+1
		return err
	})
	if err != nil {
		return err
	}
	if n < most {
		last = "" // continue at the beginning
	}
	o.swept.after = last
	for _, f := range list {
		key := []any{f.merchant, int64(f.lane)}
		repairs := []db.Statement{{SQL: recheckSQL, Args: append([]any{int64(now)}, key...)}}
		pulledIn := int64(0)
		if f.ahead == 1 { // callbacks are locked before lanes
			repairs = []db.Statement{{SQL: pullInSQL, Args: append(key[:2:2], int64(now), int64(longestDue), sweepMost),
				N: &pulledIn}, {SQL: resetClockSQL, Args: append(key[:2:2], int64(latest), int64(longestOpen))}, repairs[0]}
		}
		err := o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
			t.WakeHere(TopicOf(f.lane))
			return t.Batch(ctx, repairs)
		})
		if err != nil {
			return err
		}
		done.More = done.More || pulledIn == sweepMost
	}
	return nil
}
