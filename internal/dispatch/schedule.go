package dispatch

import (
	"time"

	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Schedule says how long to wait before each attempt of a callback.
type Schedule struct {
	// Delays are the waits before attempt 1, 2 and so on.
	Delays []time.Duration
	// Every is the wait before each attempt after those; 0 ends the
	// schedule there.
	Every time.Duration
}

// The default schedules. Twelve attempts spread over 51 hours outlast a weekend
// without an engineer; a withdrawal's end with its deadline.
var (
	notifySchedule = Schedule{Delays: []time.Duration{
		0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}}
	withdrawSchedule = Schedule{Delays: []time.Duration{
		0, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second,
	}, Every: time.Minute}
)

const (
	// maxJitter is the greatest part of a delay that is added to it, so that
	// callbacks that failed together do not come back together.
	maxJitter = 0.1
	// lastChance is how long before a deadline one more attempt starts, where
	// the schedule alone would pass over the deadline. An exchange that
	// does well needs far less.
	lastChance = 5 * time.Second

	notifyHold = time.Minute
)

// withdrawHolds are the waits after the first, second, … hold of a withdrawal;
// the last one repeats. A person who approves at once is not kept waiting.
var withdrawHolds = []time.Duration{
	5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute,
}

// ScheduleFor gives the schedule of a lane, or what the merchant has set for it.
func ScheduleFor(lane outbox.Lane, own *outbox.Retry) Schedule {
	if own != nil && (len(own.Delays) > 0 || own.Every > 0) {
		s := Schedule{Every: ownDelay(own.Every)}
		for _, d := range own.Delays {
			s.Delays = append(s.Delays, ownDelay(d))
		}
		return s
	}
	if lane == outbox.LaneWithdraw {
		return withdrawSchedule
	}
	return notifySchedule
}

// ownDelay keeps a merchant's number of milliseconds within what arithmetic
// with due times stands.
func ownDelay(ms int64) time.Duration {
	const most = 365 * 24 * time.Hour
	return time.Duration(min(max(0, ms), most.Milliseconds())) * time.Millisecond
}

// Delay gives the wait before the next attempt after failed attempts that count
// against the schedule. more is false where the schedule has ended.
func (s Schedule) Delay(failed int) (d time.Duration, more bool) {
	switch {
	case failed >= 0 && failed < len(s.Delays):
		return s.Delays[failed], true
	case s.Every > 0:
		return s.Every, true
	}
	return 0, false
}

// holdDelay gives the wait after a hold that came after held others.
func holdDelay(lane outbox.Lane, held int) time.Duration {
	if lane != outbox.LaneWithdraw {
		return notifyHold
	}
	return withdrawHolds[max(0, min(held, len(withdrawHolds)-1))]
}

// dueAfter gives the due time delay from now, with jitter, a number from 0 up to
// but not including 1. more is false where the deadline leaves no attempt: then
// only the expiry is left.
func dueAfter(now db.Millis, delay time.Duration, jitter float64, deadline db.Millis) (due db.Millis, more bool) {
	if jitter < 0 || jitter >= 1 {
		jitter = 0
	}
	due = now + db.Millis((delay + time.Duration(float64(delay)*maxJitter*jitter)).Milliseconds())
	if due < deadline {
		return due, true
	}
	if last := deadline - db.Millis(lastChance.Milliseconds()); last > now {
		return last, true
	}
	return deadline, false
}
