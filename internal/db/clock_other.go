//go:build !linux

package db

import "time"

// sinceBoot returns a monotonic clock.
func sinceBoot() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
