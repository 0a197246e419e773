//go:build !linux

package db

import "syscall"

// limitSilence does nothing: other systems have only keep-alive.
func limitSilence(string, string, syscall.RawConn) error { return nil }
