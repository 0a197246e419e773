//go:build !linux

package dbtest

import "testing"

// SmallDisk skips the test: only Linux mounts a disk in memory so easily.
func SmallDisk(t testing.TB, _ int) (dir string) {
	t.Helper()
	t.Skip("skipped: a small disk needs Linux")
	return ""
}
