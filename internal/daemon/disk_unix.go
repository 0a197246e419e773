//go:build linux || darwin || freebsd

package daemon

import "syscall"

// diskFree returns the bytes that are left for this user on the volume of dir.
func diskFree(dir string) (float64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return float64(s.Bavail) * float64(s.Bsize), nil
}
