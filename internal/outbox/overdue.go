package outbox

import (
	"context"
	"fmt"
	"sync"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/pace"
)

// The times of overdue.
const (
	overdueAfter db.Millis = 900_000
	overdueEvery db.Millis = 60_000    // between two looks of a process
	overdueAgain db.Millis = 3_600_000 // between two alarms of a process about a lane
)

// overdue is what a process remembers of its looks for overdue work.
type overdue struct {
	mu     sync.Mutex
	looked db.Millis
	raised [pace.Lanes]db.Millis // by lane
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

// A merchant that is not reached has an alarm of its own.
var overdueSQL = fmt.Sprintf(`
SELECT merchant, due FROM (
	SELECT l.merchant, (
		SELECT o.due FROM outbox o WHERE o.merchant = l.merchant AND o.lane = l.lane AND o.state = 'pending'
		ORDER BY o.due LIMIT 1) AS due
	FROM lanes l WHERE l.lane = $1 AND l.active = 1 AND l.failures < %d AND l.next_due <= $2
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)) waiting
WHERE due <= $3 ORDER BY due LIMIT 1`, pace.BreakerThreshold)

// sweep raises AlarmOverdue about the merchant of each lane whose work waits for
// longest. One alarm stands for all, or an overloaded node would raise one for every
// merchant.
func (o *overdue) sweep(ctx context.Context, d *db.DB, now db.Millis) error {
	for _, lane := range o.due(now) {
		var merchant string
		var due db.Millis
		found, err := db.One(ctx, d, overdueSQL, []any{int64(lane), int64(now - overdueAfter), int64(now - overdueAfter)}, &merchant, &due)
		if err != nil {
			return fmt.Errorf("overdue work: %w", err)
		}
		if !found {
			continue
		}
		if err := d.RaiseAlarm(ctx, db.Alarm{Of: merchant, Kind: client.AlarmOverdue, Subject: lane.String(), At: now}); err != nil {
			return err
		}
		o.mu.Lock()
		o.raised[lane] = now
		o.mu.Unlock()
	}
	return nil
}
