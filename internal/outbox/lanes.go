package outbox

import (
	"context"
	"slices"

	"countersign"
	"countersign/internal/db"
)

const laneColumns = `merchant, lane, active, concurrency, rate, version, in_flight, next_due, served, failures, open_until,
	bucket, rate_ready, accepted, refused, exhausted, cancelled`

func (l *laneRow) scan(r db.Rows) error {
	var active int64
	err := r.Scan(&l.merchant, &l.lane, &active, &l.concurrency, &l.rate, &l.version, &l.inFlight, &l.nextDue, &l.served,
		&l.failures, &l.openUntil, &l.bucket, &l.rateReady, &l.final[0], &l.final[1], &l.final[2], &l.final[3])
	l.active = active != 0
	return err
}

// laneChanges gathers a transaction's changes of lanes, so that it locks their rows
// once, in one order, and late.
type laneChanges map[laneKey]*laneChange

func (c laneChanges) of(merchant string, lane countersign.Lane) *laneChange {
	k := laneKey{merchant, lane}
	if c[k] == nil {
		c[k] = &laneChange{due: db.Never}
	}
	return c[k]
}

// ended counts one callback that reached the final state.
func (c *laneChange) ended(state CallbackState) { c.final[finalIndex(state)]++ }

// back counts one callback that is pending again.
func (c *laneChange) back(due db.Millis) { c.due = min(c.due, due) }

// alarms adds those of breakers that stay open, after the changes were applied.
func (c laneChanges) alarms(feed *feedEntries, now db.Millis) {
	for k, change := range c {
		if change.stays {
			feed.alarm(k.merchant, AlarmBreakerOpen, k.lane.String(), now)
		}
	}
}

const (
	lockLaneSQL = `SELECT ` + laneColumns + ` FROM lanes WHERE merchant = $1 AND lane = $2{lock}`
	// lane + 0 leaves only the index by merchant, whatever the statistics say.
	lockLanesSQL = `
SELECT ` + laneColumns + ` FROM lanes WHERE merchant {in}$1{end} AND lane + 0 = $2 ORDER BY merchant{lock}`

	changeLaneSQL = `
UPDATE lanes SET in_flight = $1, next_due = $2, failures = $3, open_until = $4,
	accepted = $5, refused = $6, exhausted = $7, cancelled = $8
WHERE merchant = $9 AND lane = $10`
)

// changeLanes applies c and wakes this node if something can be claimed now or later.
// more runs with its statements.
func (o *Outbox) changeLanes(ctx context.Context, t *db.Tx, c laneChanges, now db.Millis, more ...db.Statement) error {
	lanes, err := o.lockLanes(ctx, t, c)
	if err != nil {
		return err
	}
	writes := make([]db.Statement, len(lanes))
	for i := range lanes {
		l := &lanes[i]
		l.apply(c[laneKey{l.merchant, l.lane}], now)
		if l.ready() < db.Never {
			t.WakeHere(TopicOf(l.lane))
		}
		writes[i] = db.Statement{SQL: changeLaneSQL, Args: []any{l.inFlight, int64(l.nextDue), l.failures,
			int64(l.openUntil), l.final[0], l.final[1], l.final[2], l.final[3], l.merchant, int64(l.lane)}}
	}
	return t.Batch(ctx, append(writes, more...))
}

// laneCount is how many lanes there are, each a number below it.
const laneCount = 2

// lockLanes reads the lanes of c, one lane's after the other's, each in order of
// the merchants: everybody locks them so.
func (o *Outbox) lockLanes(ctx context.Context, t *db.Tx, c laneChanges) ([]laneRow, error) {
	var merchants [laneCount][]string
	for k := range c {
		merchants[k.lane] = append(merchants[k.lane], k.merchant)
	}
	found := make([]laneRow, 0, len(c))
	var reads []db.Statement
	read := func(r db.Rows) error {
		found = append(found, laneRow{})
		return found[len(found)-1].scan(r)
	}
	for lane, list := range merchants {
		switch len(list) {
		case 0:
		case 1:
			reads = append(reads, db.Statement{SQL: lockLaneSQL, Args: []any{list[0], lane}, Row: read})
		default:
			slices.Sort(list)
			reads = append(reads, db.Statement{SQL: lockLanesSQL, Args: []any{o.Dialect().List(list), lane}, Row: read})
		}
	}
	return found, t.Batch(ctx, reads)
}

const touchSQL = `UPDATE lanes SET next_due = $3 WHERE merchant = $1 AND lane = $2 AND next_due > $3`

// addWork notes a new pending callback in its lane. With PostgreSQL it runs after the
// commit. Inside the transaction, every ingest would keep the lane's row locked until
// its commit, and claims, which skip locked rows, would find nothing. The order also
// closes a race: a claim that looked for rows before the ingest's commit either
// commits before this statement, which then corrects the lane, or looks again after
// its own commit (recheck). After a crash in between, Sweep finds the work.
func (o *Outbox) addWork(ctx context.Context, t *db.Tx, merchant string, lane countersign.Lane, due db.Millis) error {
	t.Wake(TopicOf(lane))
	return t.Later(ctx, touchSQL, merchant, int64(lane), int64(due))
}
