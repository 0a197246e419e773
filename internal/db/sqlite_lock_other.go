//go:build !unix

package db

import (
	"fmt"
	"os"
	"runtime"
)

// lockFile returns an error. Without a lock that ends with its process, ReclaimAll could take leases from a process
// that still runs.
func lockFile(string) (*os.File, error) {
	return nil, fmt.Errorf("a SQLite database needs file locks, which are not supported here on %s: use PostgreSQL",
		runtime.GOOS)
}
