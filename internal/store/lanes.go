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

const (
	lockLaneSQL  = `SELECT ` + laneColumns + ` FROM lanes WHERE merchant = $1 AND lane = $2{lock}`
	lockLanesSQL = `
SELECT ` + laneColumns + ` FROM lanes WHERE merchant {in}$1{end} AND lane + 0 = $2 ORDER BY merchant{lock}`

	changeLaneSQL = `
UPDATE lanes SET in_flight = $1, next_due = $2, failures = $3, open_until = $4,
	accepted = $5, refused = $6, exhausted = $7, cancelled = $8
WHERE merchant = $9 AND lane = $10`

	changeLanesSQL = `
UPDATE lanes SET in_flight = in_flight - $1, accepted = accepted + $2 WHERE merchant {in}$3{end} AND lane + 0 = $4`
)

// changeLanes applies c and wakes this node where something can be claimed
// now or later. Lanes that change alike do so in one statement.
func (s *Store) changeLanes(ctx context.Context, t *tx, c laneChanges, now Millis) error {
	lanes, err := s.lockLanes(ctx, t, c)
	if err != nil {
		return err
	}
	var writes []statement
	type plain struct {
		lane     Lane
		freed    int
		accepted int64
	}
	alike := map[plain][]string{}
	var order []plain
	for i := range lanes {
		l := &lanes[i]
		change := c[laneKey{l.merchant, l.lane}]
		together := l.plain(change)
		l.apply(change, now)
		if l.ready() < Never {
			t.wakeHere(topicOf(l.lane))
		}
		if together {
			p := plain{l.lane, change.freed, change.final[0]}
			if alike[p] == nil {
				order = append(order, p)
			}
			alike[p] = append(alike[p], l.merchant)
			continue
		}
		writes = append(writes, statement{sql: changeLaneSQL, args: []any{l.inFlight, int64(l.nextDue), l.failures,
			int64(l.openUntil), l.final[0], l.final[1], l.final[2], l.final[3], l.merchant, int64(l.lane)}})
	}
	for _, p := range order {
		writes = append(writes, statement{sql: changeLanesSQL,
			args: []any{p.freed, p.accepted, s.dialect.list(alike[p]), int64(p.lane)}})
	}
	return t.batch(ctx, writes)
}

// laneCount is how many lanes there are, each a number below it.
const laneCount = 2

// lockLanes reads the lanes of c, one lane's after the other's, each in order of
// the merchants: everybody locks them so.
func (s *Store) lockLanes(ctx context.Context, t *tx, c laneChanges) ([]laneRow, error) {
	var merchants [laneCount][]string
	for k := range c {
		merchants[k.lane] = append(merchants[k.lane], k.merchant)
	}
	found := make([]laneRow, 0, len(c))
	var reads []statement
	read := func(r rows) error {
		found = append(found, laneRow{})
		return found[len(found)-1].scan(r)
	}
	for lane, list := range merchants {
		switch len(list) {
		case 0:
		case 1:
			reads = append(reads, statement{sql: lockLaneSQL, args: []any{list[0], lane}, row: read})
		default:
			slices.Sort(list)
			reads = append(reads, statement{sql: lockLanesSQL, args: []any{s.dialect.list(list), lane}, row: read})
		}
	}
	return found, t.batch(ctx, reads)
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
