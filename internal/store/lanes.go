package store

import (
	"context"
	"slices"
)

const laneColumns = `merchant, lane, active, concurrency, rate, version, in_flight, next_due, served, failures, open_until,
	bucket, rate_ready, accepted, refused, exhausted, cancelled`

func (l *laneRow) scan(r rows) error {
	var active int64
	err := r.Scan(&l.merchant, &l.lane, &active, &l.concurrency, &l.rate, &l.version, &l.inFlight, &l.nextDue, &l.served,
		&l.failures, &l.openUntil, &l.bucket, &l.rateReady, &l.final[0], &l.final[1], &l.final[2], &l.final[3])
	l.active = active != 0
	return err
}

// laneChanges gathers what a transaction does to lanes, so that it locks their
// rows once, in one order, and late.
type laneChanges map[laneKey]*laneChange

func (c laneChanges) of(merchant string, lane Lane) *laneChange {
	k := laneKey{merchant, lane}
	if c[k] == nil {
		c[k] = &laneChange{due: Never}
	}
	return c[k]
}

// ended counts one callback that has come to state.
func (c *laneChange) ended(state CallbackState) { c.final[finalIndex(state)]++ }

// back counts one callback that is pending again.
func (c *laneChange) back(due Millis) { c.due = min(c.due, due) }

const lockLaneSQL = `SELECT ` + laneColumns + ` FROM lanes WHERE merchant = $1 AND lane = $2{lock}`

const changeLaneSQL = `
UPDATE lanes SET in_flight = $3, next_due = $4, failures = $5, open_until = $6,
	accepted = $7, refused = $8, exhausted = $9, cancelled = $10
WHERE merchant = $1 AND lane = $2`

// changeLanes applies c and wakes this node where something can be claimed
// now or later.
func (s *Store) changeLanes(ctx context.Context, t *tx, c laneChanges, now Millis) error {
	keys := make([]laneKey, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b laneKey) int {
		if a.less(b) {
			return -1
		}
		return 1
	})
	lanes := make([]laneRow, len(keys))
	reads := make([]statement, len(keys))
	for i, k := range keys {
		reads[i] = statement{sql: lockLaneSQL, args: []any{k.merchant, int64(k.lane)}, row: lanes[i].scan}
	}
	if err := t.batch(ctx, reads); err != nil {
		return err
	}
	writes := make([]statement, len(keys))
	for i, k := range keys {
		l := &lanes[i]
		l.apply(c[k], now)
		writes[i] = statement{sql: changeLaneSQL, args: []any{k.merchant, int64(k.lane), l.inFlight, int64(l.nextDue), l.failures,
			int64(l.openUntil), l.final[0], l.final[1], l.final[2], l.final[3]}}
		if l.ready() < Never {
			t.wakeHere(topicOf(k.lane))
		}
	}
	return t.batch(ctx, writes)
}

// addWork tells a lane of a new pending callback. See postgresDB.touch for why
// that must wait for the commit with PostgreSQL.
func (s *Store) addWork(ctx context.Context, t *tx, merchant string, lane Lane, due Millis) error {
	t.wake(topicOf(lane))
	if !s.dialect.concurrent {
		_, err := t.exec(ctx, touchSQL, merchant, int64(lane), int64(due))
		return err
	}
	for i := range t.touches {
		if w := &t.touches[i]; w.merchant == merchant && w.lane == lane {
			w.due = min(w.due, due)
			return nil
		}
	}
	t.touches = append(t.touches, touch{merchant, lane, due})
	return nil
}
