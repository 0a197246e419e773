//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processorTime is the processor time that this process has used. Unlike elapsed time it
// does not depend on what else the machine does.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// diskWritten is how many bytes this process has had written to disks, 0 where the
// system does not count them.
func diskWritten() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return int64(u.Oublock) * 512
}
