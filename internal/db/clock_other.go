//go:build !linux

package db

import "time"

// sinceBoot gives a monotonic clock.
func sinceBoot() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
