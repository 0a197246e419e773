package outbox

import (
	"math"

	"countersign"
	"countersign/internal/db"
)

// Pace is the row of a merchant's lane. It says how many callbacks may be sent now and when the next may, by
// concurrency, rate and breaker. It is pure.
type Pace struct {
	Merchant    string
	Lane        countersign.Lane
	Active      bool // the merchant is not paused
	Concurrency int
	Rate        float64 // callbacks a second; 0: no limit

	InFlight  int
	NextDue   db.Millis
	Served    db.Millis // the last claim
	Failures  int       // exchanges in a row that did not reach the merchant
	Since     db.Millis // when the first of these failed
	OpenUntil db.Millis
	Bucket    float64 // milliseconds: when the bucket was or will be empty
	RateReady db.Millis
}

// BreakerThreshold is how many exchanges in a row must fail to reach the merchant before its lane's breaker opens.
const BreakerThreshold = 5

// BreakerMost is the longest time for which a breaker opens. The first time is breakerFirst, and each further failure
// doubles it. In the lane of withdrawals the longest time is breakerMostWithdraw.
const (
	BreakerMost         db.Millis = 60_000
	breakerFirst        db.Millis = 5_000
	breakerMostWithdraw db.Millis = 10_000
)

// limit returns how many exchanges may run at once. After the breaker was open it is one, which tests whether the
// merchant is back.
func (l *Pace) limit() int {
	if l.Failures >= BreakerThreshold {
		return 1
	}
	return l.Concurrency
}

// Ready returns when the next callback may be sent, or Never if none may. The generated column ready has the same
// value.
func (l *Pace) Ready() db.Millis {
	if !l.Active || l.InFlight >= l.limit() {
		return db.Never
	}
	return max(l.NextDue, l.Served, l.OpenUntil, l.RateReady)
}

// burst returns how many callbacks a rate allows at once: those of a tenth of a second, at least one.
func (l *Pace) burst() float64 { return max(1, math.Floor(l.Rate/10)) }

// Free returns how many callbacks may be claimed at now.
func (l *Pace) Free(now db.Millis) int {
	if l.Ready() > now {
		return 0
	}
	free := l.limit() - l.InFlight
	if l.Rate > 0 {
		// The small term corrects rounding in the millisecond in which one more callback is allowed.
		held := min(l.burst(), (float64(now)-l.Bucket)*l.Rate/1000)
		free = min(free, int(held+1e-6))
	}
	return max(0, free)
}

// Take counts n claimed callbacks.
func (l *Pace) Take(n int, now db.Millis) {
	l.InFlight += n
	l.Served = now
	if l.Rate > 0 {
		one := 1000 / l.Rate
		l.Bucket = max(l.Bucket, float64(now)-l.burst()*one) + float64(n)*one
		l.RateReady = db.Millis(math.Ceil(l.Bucket + one - 1e-6))
	}
}

// exchanged updates the breaker after one exchange. Failures do not change an open breaker, because their exchanges
// began before it opened.
func (l *Pace) exchanged(reached bool, now db.Millis) {
	switch {
	case reached:
		l.Failures, l.Since, l.OpenUntil = 0, 0, 0
	case l.OpenUntil > now:
	default:
		l.Failures++
		if l.Since == 0 || l.Since > now { // in the future if a clock was set back
			l.Since = now
		}
		if l.Failures >= BreakerThreshold {
			most := BreakerMost
			if l.Lane == countersign.LaneWithdraw {
				most = breakerMostWithdraw
			}
			l.OpenUntil = now + min(breakerFirst<<min(l.Failures-BreakerThreshold, 10), most)
		}
	}
}

// Lanes is the number of lanes. They are numbered from 0.
const Lanes = 2

// PaceChange is the effect of settled attempts on a lane.
type PaceChange struct {
	Freed   int       // exchanges that ended
	Due     db.Millis // earliest new pending row; Never if there is none
	Reached []bool    // for each exchange, in order: whether it reached the merchant
}

// Apply applies c to the row.
func (l *Pace) Apply(c *PaceChange, now db.Millis) {
	l.InFlight = max(0, l.InFlight-c.Freed)
	l.NextDue = min(l.NextDue, c.Due)
	for _, reached := range c.Reached {
		l.exchanged(reached, now)
	}
}
