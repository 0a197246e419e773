//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that this process has used. Unlike elapsed time, it does not depend on the
// rest of the machine.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for a wrong pointer only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
