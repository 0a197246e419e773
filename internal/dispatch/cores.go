package dispatch

import (
	"context"
	"runtime"
	"time"

	"countersign"
)

// cores bounds how many RSA operations of a lane run at once. Each lane has its own places, so a backlog of deposits
// never keeps a withdrawal from a core, nor the reverse. Waiting messages are served in the order they came. openings
// bounds how many long answers of one merchant wait here.
type cores [2]chan struct{}

// newCores returns the places for n cores: n+1 in each lane. Between the end of one operation and the start of the next
// a core is idle for some µs, and the additional operation uses them: 7 % more callbacks/s in the fast build (median of
// 41 pairs, 1024 bit, two cores).
func newCores(n int) *cores {
	return &cores{make(chan struct{}, n+1), make(chan struct{}, n+1)}
}

// acquire waits for a place of the lane. It fails only if ctx ends first.
func (c *cores) acquire(ctx context.Context, lane countersign.Lane) error {
	select {
	case c[lane] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cores) release(lane countersign.Lane) { <-c[lane] }

// each runs the RSA operations f(0) to f(n-1) of one message, one after the other, once its lane has a place. It
// returns the time they took together. It fails only if ctx ends before the first operation.
func (c *cores) each(ctx context.Context, lane countersign.Lane, n int, f func(int)) (took time.Duration, err error) {
	if err := c.acquire(ctx, lane); err != nil {
		return 0, err
	}
	defer c.release(lane)
	for i := range n {
		// Everything else that is ready goes before a deposit's next block. The scheduler would interrupt it only after
		// 10 ms.
		if lane == countersign.LaneNotify {
			runtime.Gosched()
		}
		start := time.Now()
		f(i)
		took += time.Since(start)
	}
	return took, nil
}

// RunLong runs f, which keeps a core for long, such as making a key, as one more message of the notify lane. So it
// takes no core from withdrawals. One f runs at a time, so this work never has more than one core. An error is that of
// ctx, and f did not run.
func (d *Dispatcher) RunLong(ctx context.Context, f func()) error {
	select {
	case d.longWork <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.longWork }()
	if err := d.cores.acquire(ctx, countersign.LaneNotify); err != nil {
		return err
	}
	defer d.cores.release(countersign.LaneNotify)
	f()
	return nil
}
