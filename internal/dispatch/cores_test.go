package dispatch

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
			_, err := c.each(t.Context(), new(account), turnNotifySeal, 6, func(i int) {
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
			if c.busy != 0 {
				t.Errorf("%d of %d cores are busy afterwards", c.busy, all)
			}
		})
	}
}

// A deposit gives its core to a withdrawal between two blocks, and has it back
// before other deposits.
func TestWithdrawalGoesBetweenTheBlocksOfADeposit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCores(1)
		c.most = 1
		var mu sync.Mutex
		var order []string
		block := func(name string) func(int) {
			return func(int) {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			}
		}
		var all sync.WaitGroup
		a := new(account)
		run := func(turn turn, n int, name string) {
			all.Go(func() {
				if _, err := c.each(t.Context(), a, turn, n, block(name)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		run(turnNotifySeal, 3, "first")
		run(turnNotifySeal, 1, "second")
		run(turnWithdrawSeal, 2, "withdrawal")
		all.Wait()
		want := []string{"first", "withdrawal", "withdrawal", "first", "first", "second"}
		if !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		if c.busy != 0 {
			t.Errorf("%d cores are busy afterwards", c.busy)
		}
	})
}

// There is one operation more than cores, and never two: a withdrawal waits for
// the next block that ends.
func TestOneMoreThanCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCores(2)
		var running atomic.Int64
		var all sync.WaitGroup
		var took time.Duration
		a := new(account)
		message := func(turn turn, n int) {
			all.Go(func() {
				asked := time.Now()
				if _, err := c.each(t.Context(), a, turn, n, func(int) {
					if now := running.Add(1); now > 3 {
						t.Errorf("%d operations at once", now)
					}
					time.Sleep(time.Second)
					running.Add(-1)
				}); err != nil {
					t.Error(err)
				}
				if turn.ofWithdrawal() {
					took = time.Since(asked)
				}
			})
			synctest.Wait()
		}
		for range 10 {
			message(turnNotifySeal, 4)
		}
		if now := running.Load(); now != 3 {
			t.Errorf("%d operations, want 3", now)
		}
		time.Sleep(time.Second / 2)
		message(turnWithdrawSeal, 1)
		all.Wait()
		if took != 1500*time.Millisecond {
			t.Errorf("the withdrawal's block ended after %v, want half of the block before it and its own", took)
		}
		if c.busy != 0 {
			t.Errorf("%d operations are left", c.busy)
		}
	})
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
				_, _ = c.each(t.Context(), new(account), turnNotifyOpen, 3, func(i int) {
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
			if got != "bad block" || running != 0 || c.busy != 0 {
				t.Errorf("block %d: recovered %v, %d still run, %d cores busy", bad, got, running, c.busy)
			}
		})
	}
}

func TestEachGivesUpOnlyBeforeTheFirstBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCores(1)
		c.most = 1
		a := new(account)
		if err := c.acquire(t.Context(), a, turnNotifySeal); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.each(ctx, a, turnNotifySeal, 2, func(int) { t.Error("ran without a core") }); err == nil {
			t.Error("no error")
		}
		c.release(a, 0)
		ran := 0
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.each(ctx, a, turnNotifySeal, 3, func(int) { ran++; time.Sleep(time.Second) }); err != nil || ran != 3 {
			t.Errorf("%d of 3 blocks ran, error %v", ran, err)
		}
	})
}

// Who rests comes after what the network had brought before, on one core too.
func TestRestComesAfterTheNetwork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	p.most = time.Minute
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var read atomic.Int64
	go func() {
		defer r.Close()
		for buf := make([]byte, 1); ; read.Add(1) {
			if _, err := r.Read(buf); err != nil {
				return
			}
		}
	}()
	p.rest() // now the reader waits
	before := 0
	for n := range int64(1000) {
		if _, err := w.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		p.rest()
		if read.Load() < n+1 {
			before++
			for read.Load() < n+1 {
				p.rest()
			}
		}
	}
	// Now and then the scheduler is fair to those who rest. Without the pipe
	// it would be all of them.
	if before > 300 {
		t.Errorf("%d of 1000 rests ended before what had come was read", before)
	}
}

// A rest ends also where the other work does not, and after the end.
func TestRestEnds(t *testing.T) {
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 100 {
				p.rest()
			}
		})
	}
	all.Wait()
	p.close()
	p.rest()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.resting) > 50 {
		t.Errorf("%d rest for ever", len(p.resting))
	}
}
