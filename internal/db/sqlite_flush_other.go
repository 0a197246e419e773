//go:build !linux

package db

import "os"

// flush does nothing on systems that cannot sync a part of a file.
func flush(*os.File, <-chan struct{}) {}
