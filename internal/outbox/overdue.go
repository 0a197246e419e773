package outbox

import (
	"context"
	"fmt"
	"slices"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// overdueAfter is how long due work waits before an alarm is raised.
const overdueAfter db.Millis = 900_000

// A merchant that no exchange reaches has an alarm of its own.
var overdueSQL = fmt.Sprintf(`
SELECT merchant, due FROM (
	SELECT l.merchant, (
		SELECT o.due FROM outbox o WHERE o.merchant = l.merchant AND o.lane = l.lane AND o.state = 'pending'
		ORDER BY o.due LIMIT 1) AS due
	FROM lanes l WHERE l.lane = $1 AND l.active = 1 AND l.failures < %d AND l.next_due <= $2
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)) waiting
WHERE due <= $3 ORDER BY due LIMIT 1`, BreakerThreshold)

// sweepOverdue raises one AlarmOverdue for each lane, about the merchant whose work has waited longest. An overloaded
// node would otherwise raise an alarm for every merchant. The alarm ends when nothing has waited for half that time.
// With the same bound it would start and end repeatedly.
func (o *Outbox) sweepOverdue(ctx context.Context, now db.Millis) error {
	standing, err := o.StandingAlarms(ctx, client.AlarmOverdue)
	if err != nil {
		return err
	}
	for lane := range countersign.Lane(Lanes) {
		var merchant string // the merchant whose work has been due longest
		var due db.Millis
		until := int64(now - overdueAfter/2)
		if _, err := db.One(ctx, o, overdueSQL, []any{int64(lane), until, until}, &merchant, &due); err != nil {
			return fmt.Errorf("overdue work: %w", err)
		}
		i := slices.IndexFunc(standing, func(a client.Alarm) bool { return a.Subject == lane.String() })
		switch {
		case merchant == "" && i >= 0:
			err = o.EndStanding(ctx, standing[i:i+1], now)
		case merchant != "" && due <= now-overdueAfter && i < 0:
			err = o.RaiseAlarm(ctx, client.Alarm{Merchant: merchant, Kind: client.AlarmOverdue, Subject: lane.String(),
				First: now})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
