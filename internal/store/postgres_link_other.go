//go:build !linux

package store

import "syscall"

// limitSilence: other systems have only keep-alive.
func limitSilence(string, string, syscall.RawConn) error { return nil }
