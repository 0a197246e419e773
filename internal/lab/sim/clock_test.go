package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock that jumps and drifts shows what it must, and never goes back.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		last := c.now()
		pass := func(want time.Duration) {
			t.Helper()
			time.Sleep(time.Hour)
			now := c.now()
			if got := now - last; (got - want).Abs() > time.Microsecond {
				t.Errorf("in an hour it went on by %v, want %v", got, want)
			}
			last = now
		}
		pass(time.Hour)
		c.jump(time.Minute)
		pass(time.Hour + time.Minute)
		c.drift(-0.5)
		pass(30 * time.Minute)
		c.drift(0.75)
		pass(75 * time.Minute)
		c.drift(-0.25)
		pass(time.Hour)
	})
}
