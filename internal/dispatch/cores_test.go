package dispatch

import (
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
