package outbox

import (
	"context"
	"errors"
	"math"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// ClaimRequest asks Claim for work.
type ClaimRequest struct {
	Lane       countersign.Lane
	Now        db.Millis
	LeaseUntil db.Millis
	Max        int // the most callbacks to claim; above 0
	// Share is how many callbacks each merchant may have in flight on all nodes after the claim. 0: only its
	// concurrency limits it.
	Share int
}

// boundOf returns the number of callbacks in flight below which a merchant has room under a Share.
func boundOf(share int) int64 {
	if share == 0 {
		return math.MaxInt32
	}
	return int64(share)
}

// claimLanes is how many merchants one claim serves at most. It keeps the claim short and leaves merchants to other
// nodes. Each merchant costs statements and pages of its own, however few callbacks it has. The next claim serves the
// next merchants.
const claimLanes = 16

// Merchants with at least $4 and fewer than $5 callbacks in flight.
const pickLanesSQL = `
SELECT merchant, version, concurrency, rate, in_flight, served, failures, bucket, rate_ready
FROM lanes WHERE lane = $1 AND ready <= $2 AND ready < 4611686018427387904 AND in_flight >= $4 AND in_flight < $5
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)
ORDER BY ready, merchant LIMIT CAST($3 AS BIGINT){skip}`

// Claim takes up to Max due callbacks of a lane, each with a lease until LeaseUntil, and divides them among the
// waiting merchants. Merchants with nothing in flight come first, and of those the ones served longest ago. Claim
// skips merchants that are paused, that are at their concurrency, share or rate, or whose breaker is open. It takes
// nothing while the service is frozen. A second call takes other callbacks. Callbacks that a failed call has claimed
// are due again when their lease ends.
//
// In SQLite, a claim of the notify lane does not wait for the disk. A power loss can undo it and everything after it.
// The deposit is then announced again, as after any crash before its settlement. A claim of the withdraw lane is
// durable before a question is sent.
//
// The lane's row is locked from the choice to the commit. This keeps its counters exact over all nodes, and prevents
// two claims of one merchant's rows at the same time.
func (o *Outbox) Claim(ctx context.Context, r ClaimRequest) ([]Claimed, error) {
	if r.Max < 1 || r.LeaseUntil <= r.Now {
		return nil, errors.New("claiming: Max must be above 0 and the lease after now")
	}
	var claimed []Claimed
	var idle []string
	write := o.WriteUnsynced
	if r.Lane == countersign.LaneWithdraw {
		write = o.Write
	}
	err := write(ctx, func(ctx context.Context, t *db.Tx) error {
		claimed, idle = nil, nil
		lanes, err := pickLanes(ctx, t, r)
		if err != nil || len(lanes) == 0 {
			return err
		}
		var marks []db.Statement
		if claimed, marks, err = o.claimFrom(ctx, t, r, lanes); err != nil {
			return err
		}
		if idle, err = o.claimEnd(ctx, t, r, lanes, marks); err != nil {
			return err
		}
		return o.claimWithdrawals(ctx, t, r.Lane, claimed)
	})
	if err != nil {
		return nil, err
	}
	o.recheck(ctx, r.Lane, idle, r.Now)
	return claimed, nil
}

// pickLanes returns the lanes to claim from. Merchants with nothing in flight come first. The others get at least a
// quarter of the places, so that a merchant with one slow exchange still progresses while many new ones arrive.
func pickLanes(ctx context.Context, t *db.Tx, r ClaimRequest) ([]*claimLane, error) {
	most := min(r.Max, claimLanes)
	var idle, busy []*claimLane
	pick := func(to *[]*claimLane, from, below int64) db.Statement {
		return db.Statement{SQL: pickLanesSQL, Args: []any{int64(r.Lane), int64(r.Now), most, from, below},
			Row: func(row db.Rows) error {
				l := &claimLane{Pace: Pace{Active: true}}
				*to = append(*to, l)
				return row.Scan(&l.Merchant, &l.version, &l.Concurrency, &l.Rate, &l.InFlight, &l.Served, &l.Failures, &l.Bucket,
					&l.RateReady)
			}}
	}
	picks := []db.Statement{pick(&idle, 0, 1)}
	if r.Share != 1 {
		picks = append(picks, pick(&busy, 1, boundOf(r.Share)))
	}
	if err := t.Batch(ctx, picks); err != nil {
		return nil, err
	}
	idle = idle[:min(len(idle), most-min(len(busy), most/4))]
	return append(idle, busy[:min(len(busy), most-len(idle))]...), nil
}

// claimLane is a lane from which callbacks are being claimed.
type claimLane struct {
	Pace
	version int64 // of the merchant
	taken   int
	asked   int      // of the current round
	ids     []string // taken in the current round
}

const (
	// The expression makes the planner look callbacks up by id. Callbacks that are due together are neighbours in
	// that index, whatever their merchants.
	takeSQL = `
SELECT o.merchant, o.id, o.attempts, o.failed, o.held, o.due, o.last_reason, o.repeated,
	i.type, i.event_id, i.tracking_id, i.tx_id, i.call_back_id, i.payload, o.deadline, i.created, i.added_by
FROM (
	SELECT * FROM outbox w
	WHERE w.merchant = $1 AND w.lane = $2 AND w.state = 'pending' AND w.due <= $3 AND w.deadline > $3
	ORDER BY w.due, w.id LIMIT CAST($4 AS BIGINT){skip}) o
CROSS JOIN {inner}callbacks i WHERE i.merchant || '' = o.merchant AND i.id = o.id{alone}`

	markSQL = `
UPDATE outbox SET state = 'sending', attempts = attempts + 1, lease_until = $1
WHERE merchant = $2 AND id = $3`
)

// claimFrom takes rows in rounds. In each round, every lane with free capacity gets an equal share of the rest. If
// the rest does not divide evenly, the first lanes get one more. What a lane does not use is left to the next round.
// The caller must still write marks, those of the last round.
func (o *Outbox) claimFrom(ctx context.Context, t *db.Tx, r ClaimRequest,
	lanes []*claimLane) (claimed []Claimed, marks []db.Statement, err error) {
	byMerchant := make(map[string]*claimLane, len(lanes))
	for _, l := range lanes {
		byMerchant[l.Merchant] = l
	}
	taken := func(row db.Rows) error {
		var c Claimed
		id, err := c.scanTaken(row)
		l := byMerchant[c.Merchant]
		c.MerchantVersion, c.State, c.LeaseUntil, c.Attempt = l.version, client.CallbackSending, r.LeaseUntil, c.Attempt+1
		claimed, l.ids = append(claimed, c), append(l.ids, id)
		return err
	}
	for left := r.Max; left > 0 && len(lanes) > 0; {
		share, rest := left/len(lanes), left%len(lanes)
		var asked []*claimLane
		for i, l := range lanes {
			l.asked, l.ids = share, nil
			if i < rest {
				l.asked++
			}
			l.asked = min(l.asked, min(l.Free(r.Now), int(boundOf(r.Share))-l.InFlight)-l.taken)
			if l.asked > 0 {
				left -= l.asked
				asked = append(asked, l)
			}
		}
		// Marks come first, so that no row is taken twice. Asking for several lanes in one statement was not measurably
		// faster.
		statements := marks
		for _, l := range asked {
			statements = append(statements, db.Statement{SQL: takeSQL, Args: []any{l.Merchant, int64(r.Lane), int64(r.Now),
				l.asked}, Row: taken})
		}
		if err := t.Batch(ctx, statements); err != nil {
			return nil, nil, err
		}
		marks = nil
		lanes = lanes[:0:0]
		for _, l := range asked {
			l.taken += len(l.ids)
			left += l.asked - len(l.ids)
			for _, id := range l.ids {
				marks = append(marks, db.Statement{SQL: markSQL, Args: []any{int64(r.LeaseUntil), l.Merchant, id}})
			}
			if len(l.ids) == l.asked {
				lanes = append(lanes, l) // it may have more
			}
		}
	}
	return claimed, marks, nil
}

// scanTaken reads a row of takeSQL.
func (c *Claimed) scanTaken(r db.Rows) (id string, err error) {
	var repeated int64
	err = r.Scan(&c.Merchant, &id, &c.Attempt, &c.Failed, &c.Held, &c.Due, &c.LastReason, &repeated,
		&c.Type, &c.EventID, &c.TrackingID, &c.TxID, &c.CallBackID, &c.Payload, &c.Deadline, &c.Created, &c.AddedBy)
	c.ID, c.Repeated = joinID(c.Merchant, id), repeated == 1
	return id, err
}

// claimWithdrawals reads the withdrawals of callbacks of type 2. A withdrawal has the id of its callback.
func (o *Outbox) claimWithdrawals(ctx context.Context, t *db.Tx, lane countersign.Lane, claimed []Claimed) error {
	if lane != countersign.LaneWithdraw {
		return nil
	}
	reads := make([]db.Statement, len(claimed))
	for i := range claimed {
		c := &claimed[i]
		reads[i] = db.Statement{SQL: readWithdrawalSQL, Args: []any{c.Merchant, c.ID[len(c.Merchant)+1:]},
			Row: func(r db.Rows) error {
				w, err := scanWithdrawal(r)
				c.Withdrawal = &w
				return err
			}}
	}
	return t.Batch(ctx, reads)
}

const claimLaneSQL = `
UPDATE lanes SET next_due = ` + nextDueOfLaneSQL + `, in_flight = $2, served = $3, bucket = $4, rate_ready = $5
WHERE merchant = $6 AND lane = $7 RETURNING next_due`

// claimEnd writes the marks and the counters of the lanes, and sets when each lane is due next. It returns the
// merchants in whose lanes nothing more is due.
func (o *Outbox) claimEnd(ctx context.Context, t *db.Tx, r ClaimRequest, lanes []*claimLane,
	marks []db.Statement) (idle []string, err error) {
	ends := marks
	for _, l := range lanes {
		if l.taken > 0 { // else another transaction has locked its due rows
			l.Take(l.taken, r.Now)
		}
		ends = append(ends, db.Statement{SQL: claimLaneSQL, Args: []any{int64(r.Now), l.InFlight, int64(l.Served), l.Bucket,
			int64(l.RateReady), l.Merchant, int64(r.Lane)}, Row: func(row db.Rows) error {
			err := row.Scan(&l.NextDue)
			if l.NextDue > r.Now {
				idle = append(idle, l.Merchant)
			}
			return err
		}})
	}
	return idle, t.Batch(ctx, ends)
}

// recheck looks again, after the commit, at lanes that the claim left idle. With concurrent writers, the claim could
// not see an ingest that committed while it ran, and that ingest may have seen the lane's row as it was before the
// claim. If recheck fails, Sweep finds the work.
func (o *Outbox) recheck(ctx context.Context, lane countersign.Lane, idle []string, now db.Millis) {
	if !o.Dialect().ConcurrentWriters {
		return
	}
	woken, err := o.wakeLanes(ctx, lane, idle, now, now)
	if err != nil {
		o.Log().Debug("idle lanes were not checked again", "error", err)
	}
	if woken > 0 {
		o.WakeHere(TopicOf(lane))
	}
}

const nextDueSQL = `
SELECT ready FROM lanes WHERE lane = $1 AND ready < 4611686018427387904 AND in_flight < $2
	AND NOT EXISTS (SELECT 1 FROM frozen WHERE id = 'service' AND at <> 0)
ORDER BY ready LIMIT 1`

// NextDue returns when a Claim of the lane with this share can next find something. It returns Never if nothing waits
// or the service is frozen. A time in the past means now. If a Claim found nothing at that time, another node has
// locked the merchant's row: ask again after a few milliseconds.
func (o *Outbox) NextDue(ctx context.Context, lane countersign.Lane, share int) (db.Millis, error) {
	due := db.Never
	_, err := db.One(ctx, o, nextDueSQL, []any{int64(lane), boundOf(share)}, &due)
	return due, err
}

const giveBackSQL = `
UPDATE outbox SET state = 'pending', due = $4, lease_until = 0
WHERE merchant = $1 AND id = $2 AND state = 'sending' AND attempts = $3`

// GiveBack makes claimed callbacks that were not attempted due at once. Nothing counts against their schedule.
// Callbacks whose lease was lost stay as they are. Repeating it changes nothing.
func (o *Outbox) GiveBack(ctx context.Context, claimed []Claimed, now db.Millis) error {
	if len(claimed) == 0 {
		return nil
	}
	list := make([]swept, len(claimed))
	for i, c := range claimed {
		list[i] = swept{merchant: c.Merchant, id: c.ID[len(c.Merchant)+1:], number: c.Attempt, lane: c.Type.Lane()}
	}
	return o.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		_, err := o.changeRows(ctx, t, inOrder(list), now, giveBackSQL,
			func(f swept) []any { return []any{f.merchant, f.id, f.number, int64(now)} },
			func(f swept, c laneChanges, _ *feedEntries) []db.Statement {
				c.freed(f, now)
				t.Wake(TopicOf(f.lane)) // this node may be stopping, so wake the others
				return nil
			})
		return err
	})
}
