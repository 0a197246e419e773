package outbox

import (
	"context"
	"slices"

	"countersign"
	"countersign/internal/db"
)

const laneColumns = `merchant, lane, active, concurrency, rate, in_flight, next_due, served, failures, failing, open_until,
	bucket, rate_ready`

func scanLane(r db.Rows) (l Pace, err error) {
	err = r.Scan(&l.Merchant, &l.Lane, db.Bool(&l.Active), &l.Concurrency, &l.Rate, &l.InFlight, &l.NextDue, &l.Served,
		&l.Failures, &l.Since, &l.OpenUntil, &l.Bucket, &l.RateReady)
	return l, err
}

// laneKey identifies a row of lanes.
type laneKey struct {
	merchant string
	lane     countersign.Lane
}

// laneChanges collects a transaction's changes of lanes, so that their rows are locked once, in one order, and late.
type laneChanges map[laneKey]*PaceChange

func (c laneChanges) of(merchant string, lane countersign.Lane) *PaceChange {
	k := laneKey{merchant, lane}
	if c[k] == nil {
		c[k] = &PaceChange{Due: db.Never}
	}
	return c[k]
}

// byLane returns the merchants of c's changes by lane, in order.
func (c laneChanges) byLane() (merchants [Lanes][]string) {
	for k := range c {
		merchants[k.lane] = append(merchants[k.lane], k.merchant)
	}
	for _, list := range merchants {
		slices.Sort(list)
	}
	return merchants
}

// back records that a callback of a lane is pending again, and when it is due.
func (c laneChanges) back(merchant string, lane countersign.Lane, due db.Millis) {
	change := c.of(merchant, lane)
	change.Due = min(change.Due, due)
}

const (
	// "lane + 0" leaves the planner only the index by merchant, whatever the statistics say.
	lockLanesSQL = `
SELECT ` + laneColumns + ` FROM lanes WHERE merchant {in}$1{end} AND lane + 0 = $2 ORDER BY merchant{lock}`

	changeLaneSQL = `
UPDATE lanes SET in_flight = $1, next_due = $2, failures = $3, open_until = $4, failing = $5
WHERE merchant = $6 AND lane = $7`
)

// changeLanes applies c, and wakes this node if something can be claimed now or later. It runs the statements more in
// the same batch.
func (o *Outbox) changeLanes(ctx context.Context, t *db.Tx, c laneChanges, now db.Millis, more ...db.Statement) error {
	lanes, err := o.lockLanes(ctx, t, c)
	if err != nil {
		return err
	}
	writes := make([]db.Statement, len(lanes))
	for i := range lanes {
		l := &lanes[i]
		l.Apply(c[laneKey{l.Merchant, l.Lane}], now)
		if l.Ready() < db.Never {
			t.WakeHere(TopicOf(l.Lane))
		}
		writes[i] = db.Statement{SQL: changeLaneSQL, Args: []any{l.InFlight, int64(l.NextDue), l.Failures,
			int64(l.OpenUntil), int64(l.Since), l.Merchant, int64(l.Lane)}}
	}
	return t.Batch(ctx, append(writes, more...))
}

// lockLanes reads and locks the rows of c. It locks one lane after the other, and within a lane the merchants in
// order, as all transactions do.
func (o *Outbox) lockLanes(ctx context.Context, t *db.Tx, c laneChanges) ([]Pace, error) {
	found := make([]Pace, 0, len(c))
	var reads []db.Statement
	read := func(r db.Rows) error {
		l, err := scanLane(r)
		found = append(found, l)
		return err
	}
	for lane, list := range c.byLane() {
		if len(list) > 0 {
			reads = append(reads, db.Statement{SQL: lockLanesSQL, Args: []any{o.Dialect().List(list), lane}, Row: read})
		}
	}
	return found, t.Batch(ctx, reads)
}

const nextDueOfLaneSQL = `COALESCE((
	SELECT o.due FROM outbox o
	WHERE o.merchant = lanes.merchant AND o.lane = lanes.lane AND o.state = 'pending' AND o.deadline > $1
	ORDER BY o.due LIMIT 1), 4611686018427387904)`

const (
	recheckSQL = `
UPDATE lanes SET next_due = ` + nextDueOfLaneSQL + `
WHERE merchant = $2 AND lane = $3 AND next_due > ` + nextDueOfLaneSQL

	// Used if there are no concurrent writers.
	touchSQL = `UPDATE lanes SET next_due = $3 WHERE merchant = $1 AND lane = $2 AND next_due > $3`

	// The lanes of merchants $2 in which something is due before next_due. Lanes with a next_due of at most $4 are
	// left out, because a claim looks at them anyway. For lane + 0 see lockLanesSQL.
	asleepSQL = `
SELECT merchant FROM lanes
WHERE merchant {in}$2{end} AND lane + 0 = $3 AND next_due > $4 AND next_due > ` + nextDueOfLaneSQL

	wakeFreeSQL = `
UPDATE lanes SET next_due = ` + nextDueOfLaneSQL + `
WHERE merchant = ANY(ARRAY(` + asleepSQL + `{skip})) AND lane + 0 = $3`
)

// wakeLanes sets next_due of the lanes in which something is due earlier, and returns how many lanes it changed. It
// is for databases with concurrent writers. due is the earliest time at which any of the work can be due.
//
// It first updates the lanes that nobody has locked. It then waits for each of the others while it holds no lock. In
// a single transaction, the updated lanes would stay locked while it waits for the next. Claims would find nothing,
// settlements would wait for it, and it would wait for settlements.
func (o *Outbox) wakeLanes(ctx context.Context, lane countersign.Lane, merchants []string, due,
	now db.Millis) (woken int64, err error) {
	for len(merchants) > 0 {
		args := []any{int64(now), o.Dialect().List(merchants), int64(lane), int64(due)}
		var n int64
		var locked []string
		err := o.Hint(ctx, db.Statement{SQL: wakeFreeSQL, Args: args, N: &n},
			db.Statement{SQL: asleepSQL, Args: args, Row: func(r db.Rows) error {
				var merchant string
				err := r.Scan(&merchant)
				locked = append(locked, merchant)
				return err
			}})
		if woken += n; err != nil || len(locked) == 0 {
			return woken, err
		}
		if err := o.Hint(ctx, db.Statement{SQL: recheckSQL, Args: []any{int64(now), locked[0], int64(lane)},
			N: &n}); err != nil {
			return woken, err
		}
		woken += n
		merchants = locked[1:]
	}
	return woken, nil
}
