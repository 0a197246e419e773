package dispatch

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"countersign"
)

// cores bounds how many RSA operations of a lane run at once. Each lane has places of its own:
// a backlog of deposits never keeps a withdrawal from a core, nor the reverse. Waiting messages
// are served in the order they came. A merchant with long answers has at most as many of them
// waiting as openings allows.
type cores [2]chan struct{}

// newCores returns the places for n cores: one more than n in each lane. Between the end of one
// operation and the start of the next a core is idle for some µs, and the additional operation
// uses them: 7 % more callbacks/s in the fast build (median of 41 pairs, 1024 bit, two cores).
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

// spare takes a place of the lane if one is free, which none is while a message waits.
func (c *cores) spare(lane countersign.Lane) bool {
	select {
	case c[lane] <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *cores) release(lane countersign.Lane) { <-c[lane] }

// each runs the RSA operations f(0) to f(n-1) of one message when its lane has a place, and in
// more places while no other message waits for them. It returns the time that they took
// together. It fails only if ctx ends before the first operation.
func (c *cores) each(ctx context.Context, lane countersign.Lane, n int, f func(int)) (took time.Duration, err error) {
	if err := c.acquire(ctx, lane); err != nil {
		return 0, err
	}
	var next, total atomic.Int64
	work := func() {
		defer c.release(lane)
		for i := next.Add(1); int(i) <= n; i = next.Add(1) {
			// Everything else that is ready goes before a deposit's next block. The
			// scheduler would interrupt it after 10 ms only.
			if lane == countersign.LaneNotify {
				runtime.Gosched()
			}
			start := time.Now()
			f(int(i - 1))
			total.Add(int64(time.Since(start)))
		}
	}
	var others sync.WaitGroup
	defer others.Wait() // even after a panic
	panicked := make(chan any, n)
	for range min(n, cap(c[lane])-1) - 1 {
		if !c.spare(lane) {
			break
		}
		others.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					panicked <- p
				}
			}()
			work()
		})
	}
	work()
	others.Wait()
	select {
	case p := <-panicked:
		panic(p) // in the caller's goroutine, which can recover
	default:
		return time.Duration(total.Load()), nil
	}
}
