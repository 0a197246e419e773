//go:build !linux

package db

import "os"

// flush does nothing where a system cannot bring a part of a file to the disk.
func flush(*os.File, <-chan struct{}) {}
