package db

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns a monotonic clock that also counts while the machine sleeps. The clock of package time does not.
func sinceBoot() func() time.Duration {
	return func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			panic("CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39
		}
		return time.Duration(t.Nano())
	}
}
