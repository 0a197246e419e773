//go:build !linux

package dbtest

import "syscall"

// unprivileged changes nothing: on these systems the tests do not run as root, and a child
// outlives a test binary that was killed.
func unprivileged(syscall.Signal) (*syscall.SysProcAttr, int, error) { return nil, -1, nil }
