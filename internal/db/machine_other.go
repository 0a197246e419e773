//go:build !linux

package db

import (
	"os"
	"syscall"
	"time"
)

// sinceBoot returns a monotonic clock.
func sinceBoot() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// limitSilence does nothing: other systems have only keep-alive.
func limitSilence(string, string, syscall.RawConn) error { return nil }

// lockDatabase does nothing. On these systems only the lock file keeps other processes out, because a lock of the
// whole database would also keep SQLite out.
func lockDatabase(*os.File) error { return nil }

// unlock closes f, which frees its locks.
func unlock(f *os.File) error { return f.Close() }

// inUse returns false, because these systems do not show it.
func inUse(*os.File) bool { return false }
