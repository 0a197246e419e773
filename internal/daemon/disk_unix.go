//go:build linux || darwin || freebsd

package daemon

import (
	"io/fs"
	"syscall"
)

// diskFree returns the bytes that this user may still use on the volume of dir.
func diskFree(dir string) (float64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return float64(s.Bavail) * float64(s.Bsize), nil
}

const writeAndSearch = 2 | 1 // W_OK and X_OK of access(2)

// writable returns an error if this user cannot create a file in dir.
func writable(dir string) error {
	if err := syscall.Access(dir, writeAndSearch); err != nil {
		return &fs.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}
