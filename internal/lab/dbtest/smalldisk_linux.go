package dbtest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// SmallDisk returns a directory on a disk of its own with that many bytes, in memory. If
// this process may not mount one, it skips the test.
func SmallDisk(t testing.TB, bytes int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		t.Skip("skipped: mounting a small disk needs root: ", err)
	case err != nil:
		t.Fatal("mounting a small disk: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error("unmounting a small disk: ", err)
		}
	})
	return dir
}
