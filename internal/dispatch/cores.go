package dispatch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"countersign"
)

// turn orders the messages that wait for a core. Opening comes before sealing, so that
// exchanges with a lease and a connection end before new ones begin.
type turn int

const (
	turnWithdrawOpen turn = iota
	turnWithdrawSeal
	turnNotifyOpen
	turnNotifySeal
	turns
)

func openTurn(l countersign.Lane) turn {
	if l == countersign.LaneWithdraw {
		return turnWithdrawOpen
	}
	return turnNotifyOpen
}

func sealTurn(l countersign.Lane) turn {
	if l == countersign.LaneWithdraw {
		return turnWithdrawSeal
	}
	return turnNotifySeal
}

// ofWithdrawal reports whether t belongs to the withdraw lane, which goes first.
func (t turn) ofWithdrawal() bool { return t < turnNotifyOpen }

// notifyShare is how often a free core goes to the notify lane first: every eighth
// time. So many withdrawals slow deposits down but do not stop them.
const notifyShare = 8

// slice is how long RSA for deposits may keep a core before it yields to other
// goroutines. Each pause costs some µs, in which the core may be idle.
const slice = 200 * time.Microsecond

// cores bounds how many RSA operations run at once. Both lanes share it;
// withdrawals go first, between the blocks of a deposit too.
type cores struct {
	rest     func()       // lets other goroutines run; see poller
	messages atomic.Int64 // being worked on or waiting for a core

	n int // cores
	// most is how many operations run at once: one more than cores. Between the
	// end of one operation and the start of the next a core is idle for some µs,
	// and the additional operation uses them: 7 % more callbacks/s in the fast
	// build (median of 41 pairs, 1024 bit, two cores).
	most     int
	mu       sync.Mutex
	busy     int // operations
	released int
	waiting  [turns][]chan struct{} // first come, first served within a turn
}

func newCores(n int) *cores { return &cores{n: n, most: n + 1, rest: runtime.Gosched} }

// each runs the RSA operations f(0) to f(n-1) of one message when a core is free, and
// on more cores if no other message waits for them. It fails only if ctx ends before
// the first operation.
func (c *cores) each(ctx context.Context, t turn, n int, f func(int)) error {
	c.messages.Add(1)
	defer c.messages.Add(-1)
	if err := c.acquire(ctx, t); err != nil {
		return err
	}
	var next atomic.Int64
	work := func() {
		var rested time.Time // zero, so that a message rests before its first block
		for i := next.Add(1); int(i) <= n; i = next.Add(1) {
			if !t.ofWithdrawal() {
				c.giveWay(t)
			}
			// A single message delays others by at most one block, and resting on idle
			// cores costs as much as waking them.
			if c.messages.Load() > 1 && time.Since(rested) > slice {
				c.rest()
				rested = time.Now()
			}
			f(int(i - 1))
		}
	}
	var others sync.WaitGroup
	defer others.Wait() // even after a panic
	panicked := make(chan any, n)
	for range n - 1 {
		if !c.spare() {
			break
		}
		others.Go(func() {
			defer c.release()
			defer func() {
				if p := recover(); p != nil {
					panicked <- p
				}
			}()
			work()
		})
	}
	func() {
		defer c.release()
		work()
	}()
	others.Wait()
	select {
	case p := <-panicked:
		panic(p) // in the caller's goroutine, which can recover
	default:
		return nil
	}
}

// acquire waits for a core. It fails only if ctx ends first.
func (c *cores) acquire(ctx context.Context, t turn) error {
	c.mu.Lock()
	if c.busy < c.most {
		c.busy++
		c.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	c.waiting[t] = append(c.waiting[t], ready)
	c.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.waiting[t] {
		if w == ready {
			c.waiting[t] = slices.Delete(c.waiting[t], i, i+1)
			return ctx.Err()
		}
	}
	return nil // the core was given meanwhile
}

// spare takes a core if no message waits for one.
func (c *cores) spare() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy >= c.n {
		return false
	}
	c.busy++
	return true
}

// giveWay gives the core of t to a waiting withdrawal. Then it waits for the next free
// core, before all others of its turn, because its message has begun.
func (c *cores) giveWay(t turn) {
	c.mu.Lock()
	if len(c.waiting[turnWithdrawOpen])+len(c.waiting[turnWithdrawSeal]) == 0 {
		c.mu.Unlock()
		return
	}
	ready := make(chan struct{})
	c.waiting[t] = slices.Insert(c.waiting[t], 0, ready)
	c.pass()
	c.mu.Unlock()
	<-ready
}

func (c *cores) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass()
}

// pass gives free cores to the next waiting messages.
func (c *cores) pass() {
	c.busy--
	c.released++
	order := [turns]turn{turnWithdrawOpen, turnWithdrawSeal, turnNotifyOpen, turnNotifySeal}
	if c.released%notifyShare == 0 {
		order = [turns]turn{turnNotifyOpen, turnNotifySeal, turnWithdrawOpen, turnWithdrawSeal}
	}
	for _, t := range order {
		for len(c.waiting[t]) > 0 && c.busy < c.most {
			close(c.waiting[t][0])
			c.waiting[t][0] = nil
			c.waiting[t] = c.waiting[t][1:]
			c.busy++
		}
	}
}
