package outbox

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
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
	raised [Lanes]db.Millis // by lane
}

// due reports whether to look now. The first look of a process comes later: what waited
// while none ran is not overdue for the merchants' sake.
func (o *overdue) due(now db.Millis) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first := o.looked == 0; first || now-o.looked < overdueEvery {
		if first || now < o.looked {
			o.looked = now
		}
		return false
	}
	o.looked = now
	return true
}

// tells reports whether this process raises the alarm about a lane now, and notes it.
func (o *overdue) tells(lane countersign.Lane, now db.Millis) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := o.raised[lane]; last != 0 && now-last < overdueAgain && now >= last {
		return false
	}
	o.raised[lane] = now
	return true
}

// A merchant that is not reached has an alarm of its own.
var overdueSQL = fmt.Sprintf(`
SELECT merchant, due FROM (
	SELECT l.merchant, (
		SELECT o.due FROM outbox o WHERE o.merchant = l.merchant AND o.lane = l.lane AND o.state = 'pending'
		ORDER BY o.due LIMIT 1) AS due
	FROM lanes l WHERE l.lane = $1 AND l.active = 1 AND l.failures < %d AND l.next_due <= $2
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)) waiting
WHERE due <= $3 ORDER BY due LIMIT 1`, BreakerThreshold)

// sweep raises AlarmOverdue about the merchant of each lane whose work waits for
// longest. One alarm stands for all, or an overloaded node would raise one for every
// merchant. It ends when nothing waits for half as long: at the same time, it would come and go.
func (o *overdue) sweep(ctx context.Context, d *db.DB, now db.Millis) error {
	if !o.due(now) {
		return nil
	}
	standing, err := d.StandingAlarms(ctx, client.AlarmOverdue)
	if err != nil {
		return err
	}
	for lane := range countersign.Lane(Lanes) {
		var merchant string // whose work has been due for longest
		var due db.Millis
		until := int64(now - overdueAfter/2)
		_, err := db.One(ctx, d, overdueSQL, []any{int64(lane), until, until}, &merchant, &due)
		switch {
		case err != nil:
			return fmt.Errorf("overdue work: %w", err)
		case merchant == "":
			over := slices.Clone(standing)
			over = slices.DeleteFunc(over, func(a db.Alarm) bool { return a.Subject != lane.String() })
			if err := d.EndStanding(ctx, over, now); err != nil {
				return err
			}
			o.forget(lane)
		case due <= now-overdueAfter && o.tells(lane, now):
			if err := d.RaiseAlarm(ctx, db.Alarm{Of: merchant, Kind: client.AlarmOverdue, Subject: lane.String(), At: now}); err != nil {
				o.forget(lane)
				return err
			}
		}
	}
	return nil
}

// forget makes the next overdue work of a lane raise an alarm at once.
func (o *overdue) forget(lane countersign.Lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.raised[lane] = 0
}
