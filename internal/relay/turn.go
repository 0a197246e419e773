package relay

import (
	"context"
	"sync"
	"time"

	"countersign/client"
)

// manyFailed is how many merchants must fail before any row is taken for the service itself to count as failing.
const manyFailed = 10

// turn is the rows of one turn while they are sent.
type turn struct {
	r       *Relay
	began   time.Time
	waiting map[string][]Row // by merchant, in the order of ids; a merchant that failed is removed

	mu      sync.Mutex
	taken   []Row
	refused []refusal
	waits   []refusal        // rows of withdrawals that wait for another try, with what the service said
	permits []permit         // of rows that were taken
	failed  map[string]error // by merchant
	stopped map[string]error // by the key of a withdrawal
	parked  []Row            // rows of withdrawals that are held, or were stopped
	down    error            // a *downError; nil: the service can be used
	end     time.Time        // no request begins after it
}

// refusal is a row that the service will not take as it is, or not now.
type refusal struct {
	row     Row
	problem *client.Problem
}

// downError means that the service takes nothing now.
type downError struct {
	err  error
	wait time.Duration // at least
}

func (e *downError) Error() string { return e.err.Error() }
func (e *downError) Unwrap() error { return e.err }

// newTurn returns a turn of rows that were read as of the time at. What was held then is held for the whole turn:
// otherwise, if a hold ended after the reading, later rows would overtake the rows that waited.
func newTurn(r *Relay, rows []Row, at time.Time) *turn {
	t := &turn{r: r, began: time.Now(), waiting: map[string][]Row{}, failed: map[string]error{},
		stopped: map[string]error{}}
	for _, row := range rows {
		if p := unfit(&row); p != nil {
			t.refused = append(t.refused, refusal{row, p})
			continue
		}
		if row.about != nil && r.held.holds(row.key(), at) {
			t.parked = append(t.parked, row)
			continue
		}
		t.waiting[row.Merchant] = append(t.waiting[row.Merchant], row)
	}
	return t
}

// over reports whether no further request may begin.
func (t *turn) over(ctx context.Context) bool {
	return t.isDown() || ctx.Err() != nil || time.Now().After(t.end)
}

// callTime returns the context of one call of the service, which the end of ctx does not interrupt.
func callTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}

func (t *turn) isHeld(row Row) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed[row.Merchant] != nil || row.about != nil && t.stopped[row.key()] != nil
}

func (t *turn) isDown() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.down != nil
}

// note notes what became of rows that were sent together.
func (t *turn) note(list []Row, v verdict, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch v.result {
	case taken:
		t.taken = append(t.taken, list...)
	case refused:
		for _, row := range list { // several rows of one request are first sent in parts
			t.refused = append(t.refused, refusal{row, itemProblem(v.problem, 0)})
		}
	case hold:
		for _, row := range list {
			if row.about != nil {
				t.stopped[row.key()] = err
				if p := problemOf(err); p != nil {
					t.waits = append(t.waits, refusal{row, p})
				}
				t.parked = append(t.parked, row)
				continue
			}
			t.failed[row.Merchant] = err
			delete(t.waiting, row.Merchant)
		}
		if len(t.failed) >= manyFailed && len(t.taken) == 0 { // it is not about one merchant
			t.down = &downError{err: err}
		}
	default:
		t.down = &downError{err, v.wait}
	}
}

// hold holds the merchants and withdrawals that failed, and returns how many rows are left out from now on.
func (t *turn) hold() int {
	now := time.Now()
	for m, err := range t.failed {
		t.r.held.fail(m, now)
		t.r.c.Log.Warn("the rows of a merchant wait for another try", "merchant", m, "error", err.Error())
	}
	for key, err := range t.stopped {
		t.r.held.fail(key, now)
		t.r.c.Log.Warn("the rows of a withdrawal wait for another try", "withdrawal", key, "error", err.Error())
	}
	for _, row := range t.parked {
		if !t.r.held.park(row.ID, row.key()) {
			t.r.held.fail(row.Merchant, now)
		}
	}
	return len(t.parked)
}

// account counts and logs what was settled, once it is committed.
func (t *turn) account() {
	for _, row := range t.taken {
		t.r.held.work(row.key())
		t.r.metrics.carried.WithLabelValues(row.Kind).Inc()
		t.r.metrics.lag.Observe((row.Age + time.Since(t.began)).Seconds())
	}
	for _, f := range t.refused {
		t.r.metrics.refusals.WithLabelValues(kindLabel(f.row.Kind)).Inc()
		t.r.c.Log.Warn("the service refused a row", "row", f.row.ID, "kind", kindLabel(f.row.Kind), "merchant",
			f.row.Merchant, "problem", f.problem.Error())
	}
}
