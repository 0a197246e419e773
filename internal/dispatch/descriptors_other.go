//go:build !unix

package dispatch

import "math"

// Descriptors returns how many files and sockets this process may have open.
func Descriptors() int { return math.MaxInt32 }
