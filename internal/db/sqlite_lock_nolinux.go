//go:build !linux

package db

import "os"

// lockDatabase does nothing: on these systems the lock file alone keeps other processes out. A lock of the whole
// database would also keep SQLite out.
func lockDatabase(*os.File) error { return nil }

// inUse returns false: it cannot be seen on these systems.
func inUse(*os.File) bool { return false }
