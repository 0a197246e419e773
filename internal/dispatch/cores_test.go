package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
)

// A backlog of deposits whose messages are as long as messages may be costs a withdrawal no
// wait, and a backlog of withdrawals costs a deposit none. Within a lane messages are served as
// they came, never more at once than there are places.
func TestEachLaneHasItsOwnPlaces(t *testing.T) {
	for _, lanes := range [][2]countersign.Lane{{countersign.LaneNotify, countersign.LaneWithdraw}, {countersign.LaneWithdraw, countersign.LaneNotify}} {
		synctest.Test(t, func(t *testing.T) {
			const cores, long, backlog = 2, 36, 60
			c := newCores(cores)
			var running atomic.Int64
			var all sync.WaitGroup
			var mu sync.Mutex
			var order []int
			for n := range backlog {
				all.Go(func() {
					if _, err := c.each(t.Context(), lanes[0], long, func(int) {
						if now := running.Add(1); now > cores+1 {
							t.Errorf("%d operations at once", now)
						}
						time.Sleep(time.Second)
						running.Add(-1)
					}); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					order = append(order, n)
				})
				synctest.Wait()
			}
			start := time.Now()
			took, err := c.each(t.Context(), lanes[1], 4, func(int) { time.Sleep(time.Second) })
			if waited := time.Since(start); err != nil || took != 4*time.Second || waited != 4*time.Second {
				t.Errorf("lane %v: 4 blocks on %d cores took %v, %v of RSA, %v", lanes[1], cores, waited, took, err)
			}
			all.Wait()
			for at, n := range order {
				if n < at-cores || n > at+cores {
					t.Errorf("message %d was number %d to end", n, at)
				}
			}
			if len(c[0])+len(c[1]) != 0 {
				t.Errorf("%d and %d places are taken afterwards", len(c[0]), len(c[1]))
			}
		})
	}
}

// TestRunLong: long work is done one at a time though cores are free, behind the deposits that came before and beside
// the withdrawals. Neither it nor a message begins without a place, and neither ends in its middle.
func TestRunLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dispatcher{cores: newCores(0), longWork: make(chan struct{}, 1)} // one place in each lane
		var all sync.WaitGroup
		began := time.Now()
		ends := func(what string, after time.Duration, run func() error) {
			all.Go(func() {
				if err := run(); err != nil || time.Since(began) != after {
					t.Errorf("%s ended after %v, %v", what, time.Since(began), err)
				}
			})
			synctest.Wait()
		}
		long := func() error { return d.RunLong(t.Context(), func() { time.Sleep(time.Second) }) }
		message := func(lane countersign.Lane) func() error {
			return func() error {
				_, err := d.cores.each(t.Context(), lane, 2, func(int) { time.Sleep(time.Second) })
				return err
			}
		}
		ends("a key", time.Second, long)
		ends("a deposit that waits for it", 3*time.Second, message(countersign.LaneNotify))
		ends("a withdrawal beside it", 2*time.Second, message(countersign.LaneWithdraw))
		gone, leave := context.WithTimeout(t.Context(), time.Second/2)
		defer leave()
		for name, run := range map[string]func() error{
			"a key": func() error { return d.RunLong(gone, func() { t.Error("it ran for nobody") }) },
			"a message": func() error {
				_, err := d.cores.each(gone, countersign.LaneNotify, 1, func(int) { t.Error("ran without a core") })
				return err
			},
		} {
			if err := run(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s of who has left: %v", name, err)
			}
		}
		all.Wait()
		d.cores, began = newCores(8), time.Now()
		for i := range 8 {
			ends("one of eight", time.Duration(i+1)*time.Second, long)
		}
		all.Wait()
		if len(d.cores[0]) != 0 || len(d.longWork) != 0 {
			t.Errorf("%d cores and %d places are taken", len(d.cores[0]), len(d.longWork))
		}
	})
}
