package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

func TestDefaultSchedules(t *testing.T) {
	hours := func(n int) time.Duration { return time.Duration(n) * time.Hour }
	want := []time.Duration{0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		hours(1), hours(2), hours(4), hours(8), hours(12), hours(24)}
	s := ScheduleFor(countersign.LaneNotify, nil)
	for failed, d := range want {
		if got, more := s.Delay(failed); got != d || !more {
			t.Errorf("notify after %d: %v %v", failed, got, more)
		}
	}
	if _, more := s.Delay(len(want)); more {
		t.Error("the notify schedule never ends")
	}

	s = ScheduleFor(countersign.LaneWithdraw, ownSchedule(0)) // nothing set
	for failed, seconds := range []int{0, 2, 5, 10, 20, 40, 60, 60, 60} {
		if got, more := s.Delay(failed); got != time.Duration(seconds)*time.Second || !more {
			t.Errorf("withdraw after %d: %v %v", failed, got, more)
		}
	}
	if got, more := s.Delay(1 << 30); got != time.Minute || !more {
		t.Errorf("withdraw after very many: %v %v", got, more)
	}
}

// The sweep takes a due time beyond outbox.LongestDelay for that of a wrong clock. No
// schedule gives one.
func TestLongestDelay(t *testing.T) {
	for _, lane := range []countersign.Lane{countersign.LaneNotify, countersign.LaneWithdraw} {
		for _, own := range []*client.Schedule{nil, {}, ownSchedule(0, 0, 1000), ownSchedule(5000), ownSchedule(60_000, 0, 7*24*3_600_000),
			{Delays: []client.Duration{1 << 62}}, {Every: 1 << 62}} {
			s, most := ScheduleFor(lane, own), outbox.LongestDelay(lane, own)
			check := func(what string, d time.Duration) {
				if due, _ := dueAfter(0, d, 0.999, db.Never); due > db.Millis(most.Milliseconds()) {
					t.Errorf("%v %+v: %s of %v is beyond the longest, %v", lane, own, what, d, most)
				}
			}
			for n := range 30 {
				d, _ := s.Delay(n)
				check("a delay", d)
				d, _ = s.holdDelay(lane, n)
				check("a hold", d)
			}
		}
	}
}

func TestOwnSchedule(t *testing.T) {
	s := ScheduleFor(countersign.LaneNotify, &client.Schedule{Delays: []client.Duration{client.Duration(10 * time.Millisecond), -5, 1 << 62}})
	for failed, want := range []time.Duration{10 * time.Millisecond, 0, 365 * 24 * time.Hour} {
		if got, more := s.Delay(failed); got != want || !more {
			t.Errorf("after %d: %v %v", failed, got, more)
		}
	}
	if _, more := s.Delay(3); more {
		t.Error("a schedule without an every goes on")
	}
	s = ScheduleFor(countersign.LaneWithdraw, ownSchedule(1500))
	if got, more := s.Delay(0); got != 1500*time.Millisecond || !more {
		t.Errorf("every alone: %v %v", got, more)
	}
	if _, more := s.Delay(-1); !more {
		t.Error("every alone: ends before it starts")
	}
}

func TestHoldDelays(t *testing.T) {
	for held, seconds := range []int{5, 10, 20, 40, 60, 60} {
		if got, more := withdrawSchedule.holdDelay(countersign.LaneWithdraw, held); got != time.Duration(seconds)*time.Second || !more {
			t.Errorf("withdraw after %d: %v %v", held, got, more)
		}
	}
	if got, more := withdrawSchedule.holdDelay(countersign.LaneWithdraw, -3); got != 5*time.Second || !more {
		t.Errorf("before the first: %v %v", got, more)
	}
	for _, test := range []struct {
		name string
		s    Schedule
		want []time.Duration // the first and the last of them
		all  time.Duration   // 0: they do not end
	}{
		{"default", notifySchedule, notifyHolds, 51*time.Hour + 42*time.Minute + 35*time.Second},
		{"short", Schedule{Delays: []time.Duration{0, time.Second, time.Minute}}, []time.Duration{time.Minute, time.Second}, 61 * time.Second},
		{"at once", Schedule{Delays: []time.Duration{0}}, nil, 0},
		{"without an end", Schedule{Every: time.Second}, notifyHolds, 0},
	} {
		held, sum := 0, time.Duration(0)
		for held < 1000 {
			d, more := test.s.holdDelay(countersign.LaneNotify, held)
			if !more {
				break
			}
			if held < len(test.want) && d != test.want[held] || d <= 0 || d > time.Hour {
				t.Errorf("%s after %d: %v", test.name, held, d)
			}
			sum += d
			held++
		}
		if ends := test.s.Every == 0; ends != (held < 1000) || ends && sum != test.all {
			t.Errorf("%s: %d holds in %v, want %v", test.name, held, sum, test.all)
		}
	}
}

func TestDueAfter(t *testing.T) {
	const end = 100_000
	for _, test := range []struct {
		now    db.Millis
		delay  time.Duration
		jitter float64
		due    db.Millis
		more   bool
	}{
		{0, 0, 0.99, 0, true},
		{0, 10 * time.Second, 0, 10_000, true},
		{0, 10 * time.Second, 0.5, 10_500, true},
		{0, 10 * time.Second, 7, 10_000, true}, // not a jitter
		{50_000, time.Minute, 0, 95_000, true}, // one last chance
		{94_999, time.Minute, 0, 95_000, true}, //
		{95_000, time.Minute, 0, end, false},   // none left
		{95_000, time.Second, 0, 96_000, true}, // the schedule still has one
		{99_000, time.Second, 0, end, false},   // due at the deadline is too late
		{200_000, 0, 0, end, false},            // after it
	} {
		due, more := dueAfter(test.now, test.delay, test.jitter, end)
		if due != test.due || more != test.more {
			t.Errorf("%v after %d with %v: got %d %v, want %d %v", test.delay, test.now, test.jitter, due, more, test.due, test.more)
		}
	}
	if due, more := dueAfter(5, 24*time.Hour, 0, db.Never); due != 86_400_005 || !more {
		t.Errorf("no deadline: %d %v", due, more)
	}
}

func TestPropertyDueAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := db.Millis(rapid.Int64Range(0, 1<<45).Draw(t, "now"))
		delay := time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "delay"))
		jitter := rapid.Float64Range(0, 0.999999).Draw(t, "jitter")
		end := now + db.Millis(rapid.Int64Range(-10_000, 1<<40).Draw(t, "left"))
		due, more := dueAfter(now, delay, jitter, end)
		if more && (due >= end || due < now) {
			t.Fatalf("due %d outside %d to %d", due, now, end)
		}
		if !more && due != end {
			t.Fatalf("no more, yet due %d", due)
		}
		if most := now + db.Millis((delay + delay/10).Milliseconds()) + 1; more && due > most {
			t.Fatalf("due %d, after %d", due, most)
		}
	})
}

// ownSchedule is a merchant's schedule in milliseconds.
func ownSchedule(every int64, delays ...int64) *client.Schedule {
	s := &client.Schedule{Every: client.Duration(time.Duration(every) * time.Millisecond)}
	for _, d := range delays {
		s.Delays = append(s.Delays, client.Duration(time.Duration(d)*time.Millisecond))
	}
	return s
}
