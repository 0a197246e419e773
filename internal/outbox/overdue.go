package outbox

import (
	"context"
	"fmt"
	"sync"

	"countersign"
	"countersign/internal/db"
)

// Alarms about work that is not done.
const (
	// AlarmExhausted: callbacks were given up.
	AlarmExhausted = "exhausted"
	// AlarmBreakerOpen: a merchant was not reached for pace.BreakerStays.
	AlarmBreakerOpen = "breaker_open"
	// AlarmOverdue: callbacks are due for overdueAfter and are not sent.
	AlarmOverdue = "overdue"
)

const (
	overdueAfter db.Millis = 900_000
	overdueEvery db.Millis = 60_000    // between two looks of a process
	overdueAgain db.Millis = 3_600_000 // between two alarms of a process about a lane
)

// overdue is what a process remembers of its looks for overdue work.
type overdue struct {
	mu     sync.Mutex
	looked db.Millis
	raised [laneCount]db.Millis
}

// due says which lanes to look at now. The first look of a process comes later: what
// waited while none ran is not overdue for the merchants' sake.
func (o *overdue) due(now db.Millis) (lanes []countersign.Lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first := o.looked == 0; first || now-o.looked < overdueEvery {
		if first || now < o.looked {
			o.looked = now
		}
		return nil
	}
	o.looked = now
	for lane, last := range o.raised {
		if last == 0 || now-last >= overdueAgain || now < last {
			lanes = append(lanes, countersign.Lane(lane))
		}
	}
	return lanes
}

// 5 is pace.BreakerThreshold: a merchant that is not reached has an alarm of its own.
const overdueSQL = `
SELECT merchant, due FROM (
	SELECT l.merchant, (
		SELECT o.due FROM outbox o WHERE o.merchant = l.merchant AND o.lane = l.lane AND o.state = 'pending'
		ORDER BY o.due LIMIT 1) AS due
	FROM lanes l WHERE l.lane = $1 AND l.active = 1 AND l.failures < 5 AND l.next_due <= $2
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE one = 1)) waiting
WHERE due <= $3 ORDER BY due LIMIT 1`

// sweepOverdue raises AlarmOverdue about the merchant of each lane whose work waits for
// longest. One alarm stands for all, or an overloaded node would raise one for every
// merchant.
func (o *Outbox) sweepOverdue(ctx context.Context, now db.Millis) error {
	for _, lane := range o.late.due(now) {
		var merchant string
		var due db.Millis
		found, err := db.One(ctx, o, overdueSQL, []any{int64(lane), int64(now - overdueAfter), int64(now - overdueAfter)}, &merchant, &due)
		if err != nil {
			return fmt.Errorf("overdue work: %w", err)
		}
		if !found {
			continue
		}
		if err := o.RaiseAlarm(ctx, db.Alarm{Of: merchant, Kind: AlarmOverdue, Subject: lane.String(), At: now}); err != nil {
			return err
		}
		o.late.mu.Lock()
		o.late.raised[lane] = now
		o.late.mu.Unlock()
	}
	return nil
}
