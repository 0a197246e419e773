//go:build unix

package dispatch

import (
	"math"
	"syscall"
)

// Descriptors returns how many files and sockets this process may have open. Go has raised that to the most that the
// system allows.
func Descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
