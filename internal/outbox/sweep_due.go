package outbox

import (
	"context"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// Bounds of the default schedules and of a merchant's answer that it is not ready yet.
// The schedules of dispatch keep to them.
const (
	longestNotify   = 24 * time.Hour
	longestWithdraw = time.Minute
	longestHold     = time.Hour
	longestOwn      = 365 * 24 * time.Hour
)

// LongestDelay is the longest time between two attempts of a callback in a lane, by a
// merchant's own schedule or the lane's default.
func LongestDelay(lane countersign.Lane, own *client.Schedule) time.Duration {
	longest := longestNotify
	if lane == countersign.LaneWithdraw {
		longest = longestWithdraw
	}
	if own != nil && (len(own.Delays) > 0 || own.Every > 0) {
		longest = min(time.Duration(slices.Max(append([]client.Duration{own.Every}, own.Delays...))), longestOwn)
	}
	longest = max(longest, longestHold)
	return longest + longest/10 // jitter
}

const (
	farLanesSQL = `
SELECT l.merchant, l.lane, COALESCE((
		SELECT o.due FROM outbox o
		WHERE o.merchant = l.merchant AND o.lane = l.lane AND o.state = 'pending'
		ORDER BY o.due DESC LIMIT 1), 0)
FROM lanes l WHERE l.merchant > $1 ORDER BY l.merchant, l.lane LIMIT CAST($2 AS BIGINT)`

	farCallbacksSQL = `
SELECT merchant, id FROM outbox WHERE merchant = $1 AND lane = $2 AND state = 'pending' AND due > $3
ORDER BY due DESC LIMIT CAST($4 AS BIGINT)`

	pullInSQL = `
UPDATE outbox SET due = $3 WHERE merchant = $1 AND id = $2 AND state = 'pending' AND due > $4`
)

// sweepFar makes callbacks due whose next attempt is further away than their schedule
// allows: a node with a wrong clock settled the last one. It looks at some lanes; the
// next call continues there.
func (o *Outbox) sweepFar(ctx context.Context, now db.Millis, done *Swept) error {
	o.far.mu.Lock()
	defer o.far.mu.Unlock()
	type far struct {
		laneKey
		due db.Millis
	}
	var found []far
	soonest := now + clockStep + db.Millis(longestHold.Milliseconds())
	err := o.far.look(ctx, o, farLanesSQL, nil, func(r db.Rows) (string, error) {
		var f far
		err := r.Scan(&f.merchant, &f.lane, &f.due)
		if f.due > soonest {
			found = append(found, f)
		}
		return f.merchant, err
	})
	if err != nil {
		return err
	}
	for _, f := range found {
		longest, err := o.longestDelay(ctx, f.laneKey)
		if err != nil {
			return err
		}
		if latest := now + clockStep + db.Millis(longest.Milliseconds()); f.due > latest {
			if err := o.pullIn(ctx, f.laneKey, latest, now, done); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Outbox) longestDelay(ctx context.Context, k laneKey) (time.Duration, error) {
	list, err := o.Merchants(ctx, []string{k.merchant}, "", 1)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return LongestDelay(k.lane, list[0].Schedule(k.lane == countersign.LaneWithdraw)), nil
}

// pullIn makes callbacks of a lane due that are due after latest.
func (o *Outbox) pullIn(ctx context.Context, k laneKey, latest, now db.Millis, done *Swept) error {
	list, err := o.find(ctx, done, farCallbacksSQL, k.merchant, int64(k.lane), int64(latest), sweepMost)
	if err != nil || len(list) == 0 {
		return err
	}
	pulled := make([]int64, len(list))
	err = o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		updates := make([]db.Statement, len(list))
		for i, f := range list {
			updates[i] = db.Statement{SQL: pullInSQL, Args: []any{f.merchant, f.id, int64(now), int64(latest)}, N: &pulled[i]}
		}
		if err := t.Batch(ctx, updates); err != nil {
			return err
		}
		changes := laneChanges{}
		changes.back(k.merchant, k.lane, now)
		t.Wake(TopicOf(k.lane))
		return o.changeLanes(ctx, t, changes, now)
	})
	for _, n := range pulled {
		done.PulledIn += int(n)
	}
	return err
}
