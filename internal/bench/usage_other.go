//go:build !unix

package bench

import "time"

// processorTime returns 0: the time is unknown on this system, and so are figures made from it.
func processorTime() time.Duration { return 0 }

// writtenBytes returns 0 likewise.
func writtenBytes() int64 { return 0 }
