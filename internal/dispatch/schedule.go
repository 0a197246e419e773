package dispatch

import (
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// Schedule says how long to wait before each attempt of a callback.
type Schedule struct {
	// Delays are the waits before attempt 1, 2 and so on.
	Delays []time.Duration
	// Every is the wait before each attempt after those. 0 ends the schedule there.
	Every time.Duration
}

// The default schedules. The twelve attempts of a notice take 51 hours, longer than a weekend without an engineer. The
// attempts of a withdrawal end with its deadline.
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
	// maxJitter is the greatest random addition to a delay, as a part of it. It keeps callbacks that failed together
	// from being due together.
	maxJitter = 0.1
	// lastChance is how long before the deadline the last attempt starts, if the schedule's next one would come after
	// the deadline. A working exchange takes much less.
	lastChance = 5 * time.Second
	// filesDue is the delay of a callback for which this node had too many open files.
	filesDue = 10 * time.Second
)

// The waits after the first, second, … hold; the last one repeats. Those of a withdrawal begin short, for a person who
// approves at once, and end with its deadline. Those of a notice end once they have taken as long as its schedule.
var (
	notifyHolds = []time.Duration{
		time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour,
	}
	withdrawHolds = []time.Duration{
		5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute,
	}
)

// ScheduleFor returns the merchant's own schedule for a lane, or the default.
func ScheduleFor(lane countersign.Lane, own *client.Schedule) Schedule {
	if own != nil && (len(own.Delays) > 0 || own.Every > 0) {
		s := Schedule{Every: ownDelay(own.Every)}
		for _, d := range own.Delays {
			s.Delays = append(s.Delays, ownDelay(d))
		}
		return s
	}
	if lane == countersign.LaneWithdraw {
		return withdrawSchedule
	}
	return notifySchedule
}

// ownDelay bounds a merchant's delay, so that due times cannot overflow.
func ownDelay(d client.Duration) time.Duration {
	return min(max(0, time.Duration(d)), 365*24*time.Hour)
}

// Delay returns the wait before the next attempt after failed attempts that count against the schedule. more is false
// if the schedule has ended.
func (s Schedule) Delay(failed int) (d time.Duration, more bool) {
	switch {
	case failed >= 0 && failed < len(s.Delays):
		return s.Delays[failed], true
	case s.Every > 0:
		return s.Every, true
	}
	return 0, false
}

// holdDelay returns the wait after a hold that came after held others. more is false if the holds of a notice have
// taken as long as its schedule s.
func (s Schedule) holdDelay(lane countersign.Lane, held int) (d time.Duration, more bool) {
	if lane == countersign.LaneWithdraw {
		return holdAt(withdrawHolds, held), true
	}
	if s.Every > 0 {
		return holdAt(notifyHolds, held), true
	}
	left := time.Duration(0)
	for _, d := range s.Delays {
		left += d
	}
	for i := 0; i < held && left > 0; i++ {
		left -= holdAt(notifyHolds, i)
	}
	return min(left, holdAt(notifyHolds, held)), left > 0
}

func holdAt(holds []time.Duration, held int) time.Duration {
	return holds[max(0, min(held, len(holds)-1))]
}

// dueAfter returns the due time after delay from now, with a jitter in [0, 1). more is false if no attempt is possible
// before the deadline.
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
