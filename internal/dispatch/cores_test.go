package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"countersign"
)

// With cores to spare the blocks of a message run beside each other; without,
// one after the other.
func TestEachSpreadsOverIdleCores(t *testing.T) {
	for _, all := range []int{1, 2, 3, 8} {
		synctest.Test(t, func(t *testing.T) {
			c := newCores(all)
			start := time.Now()
			var mu sync.Mutex
			ran := map[int]int{}
			_, err := c.each(t.Context(), countersign.LaneNotify, 6, func(i int) {
				time.Sleep(time.Second)
				mu.Lock()
				ran[i]++
				mu.Unlock()
			})
			if err != nil {
				t.Fatal(err)
			}
			at := min(all, 6)
			if took, want := time.Since(start), time.Duration((6+at-1)/at)*time.Second; took != want {
				t.Errorf("%d cores took %v, want %v", all, took, want)
			}
			for i := range 6 {
				if ran[i] != 1 {
					t.Errorf("block %d ran %d times", i, ran[i])
				}
			}
			if len(c[countersign.LaneNotify]) != 0 {
				t.Errorf("%d places of %d cores are taken afterwards", len(c[countersign.LaneNotify]), all)
			}
		})
	}
}

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
			if waited := time.Since(start); err != nil || took != 4*time.Second || waited != 2*time.Second {
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

// A panic in any block is the caller's, after all blocks have ended, and costs
// no core.
func TestPanicInABlock(t *testing.T) {
	for bad := range 3 {
		synctest.Test(t, func(t *testing.T) {
			c := newCores(2)
			var mu sync.Mutex
			running := 0
			got := func() (p any) {
				defer func() { p = recover() }()
				_, _ = c.each(t.Context(), countersign.LaneNotify, 3, func(i int) {
					mu.Lock()
					running++
					mu.Unlock()
					defer func() {
						mu.Lock()
						running--
						mu.Unlock()
					}()
					time.Sleep(time.Second)
					if i == bad {
						panic("bad block")
					}
				})
				return nil
			}()
			if got != "bad block" || running != 0 || len(c[countersign.LaneNotify]) != 0 {
				t.Errorf("block %d: recovered %v, %d still run, %d places taken", bad, got, running, len(c[countersign.LaneNotify]))
			}
		})
	}
}

func TestEachGivesUpOnlyBeforeTheFirstBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCores(0) // one place
		if err := c.acquire(t.Context(), countersign.LaneNotify); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.each(ctx, countersign.LaneNotify, 2, func(int) { t.Error("ran without a core") }); err == nil {
			t.Error("no error")
		}
		c.release(countersign.LaneNotify)
		ran := 0
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.each(ctx, countersign.LaneNotify, 3, func(int) { ran++; time.Sleep(time.Second) }); err != nil || ran != 3 {
			t.Errorf("%d of 3 blocks ran, error %v", ran, err)
		}
	})
}
