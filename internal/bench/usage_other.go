//go:build !unix

package bench

import "time"

// processorTime is not known on this system: figures made from it are 0.
func processorTime() time.Duration { return 0 }
