//go:build !unix

package bench

import "time"

// processorTime returns 0: the time is unknown on this system, and so are figures made from it.
func processorTime() time.Duration { return 0 }
