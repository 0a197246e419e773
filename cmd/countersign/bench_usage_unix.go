//go:build unix

package main

import (
	"syscall"
	"time"
)

// processorTime is how much of the processors this process has used. Unlike the
// clock it does not mind what else the machine does.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
