package outbox

import (
	"math"

	"countersign"
	"countersign/internal/db"
)

// laneRow is a row of lanes. Its methods decide; they read nothing.
type laneRow struct {
	merchant    string
	lane        countersign.Lane
	active      bool
	concurrency int
	rate        float64
	version     int64 // of the merchant

	inFlight  int
	nextDue   db.Millis
	served    db.Millis
	failures  int
	openUntil db.Millis
	bucket    float64 // milliseconds: when the bucket was or will be empty
	rateReady db.Millis
	final     [finals]int64
}

// finals are the final states in the order of their columns.
const finals = 4

var finalStates = [finals]CallbackState{CallbackAccepted, CallbackRefused, CallbackExhausted, CallbackCancelled}

// finalIndex is the index of state in finalStates, -1 if state is not final.
func finalIndex(state CallbackState) int {
	for i, f := range finalStates {
		if f == state {
			return i
		}
	}
	return -1
}

// The breaker's open time: the first, then doubled with each failure up to a bound,
// which is shorter in the lane of withdrawals.
const (
	breakerFirst       db.Millis = 5_000
	breakerMostNotify  db.Millis = 60_000
	breakerMostConfirm db.Millis = 10_000
)

// limit is how many exchanges there may be at once. After a breaker was open it is
// one, to test whether the merchant is back.
func (l *laneRow) limit() int {
	if l.failures >= BreakerThreshold {
		return 1
	}
	return l.concurrency
}

// ready mirrors the generated column of that name.
func (l *laneRow) ready() db.Millis {
	if !l.active || l.inFlight >= l.limit() {
		return db.Never
	}
	return max(l.nextDue, l.served, l.openUntil, l.rateReady)
}

// burst is how many callbacks may be sent at once under a rate: those of a tenth of a
// second.
func (l *laneRow) burst() float64 { return max(1, math.Floor(l.rate/10)) }

// free is how many callbacks can be claimed at now.
func (l *laneRow) free(now db.Millis) int {
	if l.ready() > now {
		return 0
	}
	free := l.limit() - l.inFlight
	if l.rate > 0 {
		// The small term corrects rounding in the millisecond in which one more
		// callback is allowed.
		held := min(l.burst(), (float64(now)-l.bucket)*l.rate/1000)
		free = min(free, int(held+1e-6))
	}
	return max(0, free)
}

// take counts n claimed callbacks.
func (l *laneRow) take(n int, now db.Millis) {
	if n == 0 {
		return
	}
	l.inFlight += n
	l.served = now
	if l.rate > 0 {
		one := 1000 / l.rate
		l.bucket = max(l.bucket, float64(now)-l.burst()*one) + float64(n)*one
		l.rateReady = db.Millis(math.Ceil(l.bucket + one - 1e-6))
	}
}

// exchanged updates the breaker after one exchange. Failures do not change an open
// breaker, because their exchanges began before it opened. It reports whether the
// breaker was open for breakerStays now.
func (l *laneRow) exchanged(reached bool, now db.Millis) (stays bool) {
	switch {
	case reached:
		l.failures, l.openUntil = 0, 0
	case l.openUntil > now:
	default:
		l.failures++
		if l.failures >= BreakerThreshold {
			l.openUntil = now + openTime(l.lane, l.failures)
		}
		return l.failures == staysAt[l.lane]
	}
	return false
}

// openTime is how long a breaker opens at so many failures in a row.
func openTime(lane countersign.Lane, failures int) db.Millis {
	most := breakerMostNotify
	if lane == countersign.LaneWithdraw {
		most = breakerMostConfirm
	}
	return min(breakerFirst<<min(failures-BreakerThreshold, 10), most)
}

// breakerStays is how long a breaker is open before a person is told.
const breakerStays db.Millis = 600_000

// staysAt is the number of failures in a row, by lane, at which a breaker has been open
// for breakerStays: an open breaker counts one failure each time it has let one through.
var staysAt = func() (at [laneCount]int) {
	for lane := range at {
		at[lane] = BreakerThreshold
		for open := db.Millis(0); open < breakerStays; at[lane]++ {
			open += openTime(countersign.Lane(lane), at[lane])
		}
	}
	return at
}()

// laneKey names a row of lanes.
type laneKey struct {
	merchant string
	lane     countersign.Lane
}

// laneChange is the effect of settled attempts on a lane.
type laneChange struct {
	freed   int       // exchanges that ended
	due     db.Millis // earliest new pending row; Never if there is none
	reached []bool    // of each exchange, in order
	stays   bool      // set by apply: the breaker was open for breakerStays now
	final   [finals]int64
}

// apply changes the row.
func (l *laneRow) apply(c *laneChange, now db.Millis) {
	l.inFlight = max(0, l.inFlight-c.freed)
	l.nextDue = min(l.nextDue, c.due)
	for _, reached := range c.reached {
		if l.exchanged(reached, now) {
			c.stays = true
		}
	}
	for i, n := range c.final {
		l.final[i] += n
	}
}
