//go:build !linux

package db

import "os"

// lockDatabase does nothing. On these systems only the lock file keeps other processes out, because a lock of the
// whole database would also keep SQLite out.
func lockDatabase(*os.File) error { return nil }

// inUse returns false, because these systems do not show it.
func inUse(*os.File) bool { return false }
