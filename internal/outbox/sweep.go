package outbox

import (
	"context"
	"sync"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// Swept says what a Sweep did.
type Swept struct {
	Lost      []string // callbacks whose lease was lost; pending again
	Expired   []string // withdrawals that expired
	Lapsed    []string // confirmed withdrawals that were not released in time
	Exhausted int      // callbacks other than type 2 that passed their deadline
	Repaired  int      // lanes whose waiting work was overlooked, or delayed by a clock that was set back
	PulledIn  int      // callbacks whose next attempt was further away than their schedule allows
	More      bool     // a bound was reached: sweep again soon
}

// sweepMost bounds each part of a sweep.
const sweepMost = 500

// sweepPlace is where the next sweep continues to look at lanes.
type sweepPlace struct {
	mu    sync.Mutex
	after string // merchant
}

// look reads the lanes of the next merchants by text, whose first parameters are the
// merchant to begin after and the most rows. scan gives the row's merchant. p is locked.
func (p *sweepPlace) look(ctx context.Context, q db.Querier, text string, args []any, scan func(db.Rows) (merchant string, err error)) error {
	last, n := "", 0
	const most = 2 * sweepMost // two lanes a merchant: never part of one
	err := db.Each(ctx, q, text, append([]any{p.after, most}, args...), func(r db.Rows) (err error) {
		last, err = scan(r)
		n++
		return err
	})
	if err != nil {
		return err
	}
	if n < most {
		last = "" // from the beginning again
	}
	p.after = last
	return nil
}

// swept is a row that a sweep found.
type swept struct {
	merchant, id string
	number       int
	lane         countersign.Lane
	node         string
	claimed      db.Millis
}

// callback is the id of the callback, and of the withdrawal of one of type 2.
func (f swept) callback() string { return joinID(f.merchant, f.id) }

func scanSwept(r db.Rows) (f swept, err error) {
	err = r.Scan(&f.merchant, &f.id)
	return f, err
}

// Sweep makes callbacks with lost leases pending again. It expires withdrawals past
// their deadline together with their callbacks, and lets confirmed ones lapse. It repairs
// lanes after a crash between two statements. One call does a bounded amount of work. A lost lease does not count
// against the callback's schedule; its attempt is recorded with the reason "lost".
func (o *Outbox) Sweep(ctx context.Context, now db.Millis) (done Swept, err error) {
	// Expiry comes first, so that an expired callback does not become pending.
	for _, part := range []func(context.Context, db.Millis, *Swept) error{
		o.sweepWithdrawals, o.sweepDeadlines, o.sweepLapsed, o.sweepLeases, o.sweepLanes, o.sweepFar,
	} {
		if err := part(ctx, now, &done); err != nil {
			return done, err
		}
	}
	if err := o.late.sweep(ctx, o.DB, now); err != nil {
		return done, err
	}
	if err := o.sick.sweep(ctx, o, now); err != nil {
		return done, err
	}
	return done, o.FoldCounts(ctx)
}

// ReclaimAll ends every lease at once and gives their number. It does so only if no
// other process can have the database open; otherwise it does nothing.
func (o *Outbox) ReclaimAll(ctx context.Context, now db.Millis) (int, error) {
	if o.Dialect().Shared {
		return 0, nil
	}
	for done := (Swept{}); ; {
		before := len(done.Lost)
		err := o.endLeases(ctx, db.Never, now, &done)
		if err != nil || len(done.Lost)-before < sweepMost {
			return len(done.Lost), err
		}
	}
}

const (
	lateWithdrawalsSQL = `
SELECT merchant, id FROM withdrawals WHERE decision = '' AND deadline <= $1 AND restored = 0 ORDER BY deadline LIMIT CAST($2 AS BIGINT)`

	expireWithdrawalSQL = `
UPDATE withdrawals SET state = 'expired', decision = 'expired', reason = 'deadline', decided = $3
WHERE merchant = $1 AND id = $2 AND state = 'awaiting' AND deadline <= $3 AND restored = 0`
)

func (o *Outbox) sweepWithdrawals(ctx context.Context, now db.Millis, done *Swept) (err error) {
	done.Expired, err = o.sweepEach(ctx, lateWithdrawalsSQL, now, done, func(ctx context.Context, t *db.Tx, f swept) (bool, error) {
		return o.endWithdrawal(ctx, t, f.merchant, f.id, expireWithdrawalSQL, client.WithdrawalExpired, client.CallbackExhausted, client.ReasonDeadline, now)
	})
	return err
}

// sweepEach ends the withdrawals that text finds and gives the ids of those that end
// did end. Each has a transaction of its own: few end so, and none should wait for the
// others. While a restore is not reconciled none expires or lapses: it may have been executed.
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

// find returns merchants and ids in the order in which all transactions lock them. The
// last of args is sweepMost.
func (o *Outbox) find(ctx context.Context, done *Swept, text string, args ...any) ([]swept, error) {
	list, err := db.List(ctx, o, text, args, scanSwept)
	done.More = done.More || len(list) == sweepMost
	return inOrder(list), err
}

func inOrder(list []swept) []swept {
	sorted := make([]swept, len(list))
	for to, from := range sortedByID(len(list), func(i int) string { return list[i].callback() }) {
		sorted[to] = list[from]
	}
	return sorted
}

const (
	lateCallbacksSQL = `
SELECT merchant, id FROM outbox
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
	ended := make([]int64, len(found))
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		feed := &feedEntries{}
		updates := make([]db.Statement, len(found))
		for i, f := range found {
			updates[i] = db.Statement{SQL: exhaustSQL, Args: []any{f.merchant, f.id, int64(now)}, N: &ended[i]}
		}
		if err := t.Batch(ctx, updates); err != nil {
			return err
		}
		changes := laneChanges{}
		for i, f := range found {
			if ended[i] == 1 {
				changes.ended(f.merchant, countersign.LaneNotify, client.CallbackExhausted)
				feed.alarm(f.merchant, client.AlarmExhausted, f.callback()+" "+string(client.ReasonDeadline), now)
			}
		}
		if err := o.changeLanes(ctx, t, changes, now); err != nil {
			return err
		}
		return feed.write(ctx, t)
	})
	if err != nil {
		return err
	}
	for _, n := range ended {
		done.Exhausted += int(n)
	}
	return nil
}

const (
	lostLeasesSQL = `
SELECT merchant, id, attempts, lane, node, claimed FROM outbox
WHERE state = 'sending' AND lease_until > 0 AND lease_until <= $1 ORDER BY lease_until LIMIT CAST($2 AS BIGINT)`

	loseLeaseSQL = `
UPDATE outbox SET state = 'pending', due = $4, lease_until = 0, last_reason = 'lost'
WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3 AND lease_until <= $5`

	lostAttemptSQL = insertAttemptSQL + ` ON CONFLICT (merchant, callback, number) DO NOTHING`
)

func (o *Outbox) sweepLeases(ctx context.Context, now db.Millis, done *Swept) error {
	return o.endLeases(ctx, now, now, done)
}

// endLeases makes callbacks pending whose lease ended by until.
func (o *Outbox) endLeases(ctx context.Context, until, now db.Millis, done *Swept) error {
	found, err := db.List(ctx, o, lostLeasesSQL, []any{int64(until), sweepMost}, func(r db.Rows) (f swept, err error) {
		err = r.Scan(&f.merchant, &f.id, &f.number, &f.lane, &f.node, &f.claimed)
		return f, err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	done.More = done.More || len(found) == sweepMost
	found = inOrder(found)
	lost := make([]int64, len(found))
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		statements := make([]db.Statement, len(found))
		for i, f := range found {
			statements[i] = db.Statement{SQL: loseLeaseSQL, Args: []any{f.merchant, f.id, f.number, int64(now), int64(until)}, N: &lost[i]}
		}
		if err := t.Batch(ctx, statements); err != nil {
			return err
		}
		statements = statements[:0]
		changes := laneChanges{}
		for i, f := range found {
			if lost[i] == 0 {
				continue // settled in the meantime
			}
			changes.of(f.merchant, f.lane).Freed++
			changes.back(f.merchant, f.lane, now)
			statements = append(statements, db.Statement{SQL: lostAttemptSQL, Args: []any{f.merchant, f.id, f.number, "", int64(f.claimed),
				0, 0, nil, string(client.AttemptLost), string(client.ReasonLost), f.node, []byte{}, []byte{}, 0, 0, int64(now), 0, ""}})
		}
		if err := t.Batch(ctx, statements); err != nil {
			return err
		}
		return o.changeLanes(ctx, t, changes, now)
	})
	if err != nil {
		return err
	}
	for i, f := range found {
		if lost[i] == 1 {
			done.Lost = append(done.Lost, f.callback())
		}
	}
	return nil
}

// overlookedSQL finds lanes in which something is due before next_due, and lanes
// written by a clock that was since set back by more than clockStep.
const overlookedSQL = `
SELECT l.merchant, l.lane,
	CASE WHEN l.next_due > COALESCE((
		SELECT o.due FROM outbox o
		WHERE o.merchant = l.merchant AND o.lane = l.lane AND o.state = 'pending' AND o.deadline > $3
		ORDER BY o.due LIMIT 1), 4611686018427387904) THEN 1 ELSE 0 END,
	CASE WHEN l.served > $4 OR l.bucket > $4 OR l.open_until > $5 THEN 1 ELSE 0 END
FROM lanes l WHERE l.merchant > $1 ORDER BY l.merchant, l.lane LIMIT CAST($2 AS BIGINT)`

// clockStep is how far clocks of nodes may differ, in milliseconds.
const clockStep db.Millis = 1000

// resetClockSQL resets times of a lane that lie in the future. Its callbacks would
// otherwise wait for them.
const resetClockSQL = `
UPDATE lanes SET served = CASE WHEN served > $3 THEN 0 ELSE served END,
	bucket = CASE WHEN bucket > $3 THEN 0 ELSE bucket END, rate_ready = CASE WHEN bucket > $3 THEN 0 ELSE rate_ready END,
	open_until = CASE WHEN open_until > $4 THEN 0 ELSE open_until END
WHERE merchant = $1 AND lane = $2`

// sweepLanes checks some lanes; the next call continues there.
func (o *Outbox) sweepLanes(ctx context.Context, now db.Millis, done *Swept) error {
	o.swept.mu.Lock()
	defer o.swept.mu.Unlock()
	var overlooked, ahead []laneKey
	latest, longestOpen := now+clockStep, now+clockStep+BreakerMost
	err := o.swept.look(ctx, o, overlookedSQL, []any{int64(now), int64(latest), int64(longestOpen)}, func(r db.Rows) (string, error) {
		var k laneKey
		var waits, early int
		err := r.Scan(&k.merchant, &k.lane, &waits, &early)
		if waits == 1 {
			overlooked = append(overlooked, k)
		}
		if early == 1 {
			ahead = append(ahead, k)
		}
		return k.merchant, err
	})
	if err != nil {
		return err
	}
	repair := func(k laneKey, text string, args ...any) error {
		var repaired int64
		err := o.Write(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			t.WakeHere(TopicOf(k.lane))
			repaired, err = t.Exec(ctx, text, append([]any{k.merchant, int64(k.lane)}, args...)...)
			return err
		})
		done.Repaired += int(repaired)
		return err
	}
	for _, k := range overlooked {
		if err := repair(k, recheckSQL, int64(now)); err != nil {
			return err
		}
	}
	for _, k := range ahead {
		if err := repair(k, resetClockSQL, int64(latest), int64(longestOpen)); err != nil {
			return err
		}
	}
	return nil
}
