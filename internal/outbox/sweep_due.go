package outbox

import (
	"context"
	"slices"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// Bounds of the default schedules and of the delay after a merchant's answer that it is not ready yet. The schedules of
// package dispatch keep to them.
const (
	longestNotify   = 24 * time.Hour
	longestWithdraw = time.Minute
	longestHold     = time.Hour
	longestOwn      = 365 * 24 * time.Hour
)

// LongestDelay returns the longest time between two attempts of a callback in a lane, by the merchant's own schedule or
// the lane's default.
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
	laterThanScheduledSQL = `
SELECT merchant, id FROM outbox WHERE merchant = $1 AND lane = $2 AND state = 'pending' AND due > $3
ORDER BY due DESC LIMIT CAST($4 AS BIGINT)`

	pullInSQL = `
UPDATE outbox SET due = $3 WHERE merchant = $1 AND id = $2 AND state = 'pending' AND due > $4`
)

// pullIn makes callbacks of a lane due whose next attempt is later than their schedule allows. last is the latest due
// time of the lane. A node with a wrong clock settled such callbacks.
func (o *Outbox) pullIn(ctx context.Context, k laneKey, last, now db.Millis, done *Swept) error {
	of, err := o.Merchants(ctx, []string{k.merchant}, "", 1)
	if err != nil || len(of) == 0 {
		return err
	}
	longest := LongestDelay(k.lane, of[0].Schedule(k.lane == countersign.LaneWithdraw))
	latest := now + clockStep + db.Millis(longest.Milliseconds())
	if last <= latest {
		return nil
	}
	list, err := o.find(ctx, done, laterThanScheduledSQL, k.merchant, int64(k.lane), int64(latest), sweepMost)
	if err != nil || len(list) == 0 {
		return err
	}
	pulled, err := o.sweepRows(ctx, list, now, pullInSQL, func(f swept) []any { return []any{f.merchant, f.id, int64(now), int64(latest)} },
		func(_ swept, c laneChanges) then {
			c.back(k.merchant, k.lane, now)
			return then{}
		})
	done.PulledIn += len(pulled)
	return err
}
