package sim

import (
	"sync"
	"time"
)

// clock is a machine's monotonic clock: it jumps, and runs faster or slower for a while. It never
// goes back.
type clock struct {
	mu    sync.Mutex
	since time.Time
	at    time.Duration // at since
	rate  float64       // from since on; 0 is the true one
}

func (c *clock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *clock) read() time.Duration {
	if c.since.IsZero() {
		c.since = time.Now()
	}
	true := time.Since(c.since)
	return c.at + true + time.Duration(float64(true)*c.rate)
}

// jump moves it forward.
func (c *clock) jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at += by
}

// drift changes how fast it is from now on, by a share of the true time.
func (c *clock) drift(by float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.since = c.read(), time.Now()
	c.rate += by
}
