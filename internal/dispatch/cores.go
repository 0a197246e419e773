package dispatch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"countersign/internal/store"
)

// turn orders those who wait for a core. Opening comes before sealing, so that
// exchanges that hold a lease and a connection end before new ones begin.
type turn int

const (
	turnWithdrawOpen turn = iota
	turnWithdrawSeal
	turnNotifyOpen
	turnNotifySeal
	turns
)

func openTurn(l store.Lane) turn {
	if l == store.LaneWithdraw {
		return turnWithdrawOpen
	}
	return turnNotifyOpen
}

func sealTurn(l store.Lane) turn {
	if l == store.LaneWithdraw {
		return turnWithdrawSeal
	}
	return turnNotifySeal
}

// ofWithdrawal says which turns give way to no other lane.
func (t turn) ofWithdrawal() bool { return t < turnNotifyOpen }

// notifyShare lets every so many-th free core go to the notify lane first, so
// that a flood of withdrawals slows deposits down and does not stop them.
const notifyShare = 8

// How long RSA may go on before all else that can run goes first: on each core, and
// in the calm on all of them together. Each rest costs some µs, in which a core may
// stand idle.
const (
	slice     = 200 * time.Microsecond
	calmSlice = 500 * time.Microsecond
)

// calmAfter is how long after a withdrawal it is calm: where there was one, there
// may be another in the API or being claimed, which must not wait for RSA either.
const calmAfter = time.Second

// cores bounds how many RSA operations run at once. Both lanes share it;
// withdrawals go first, between the blocks of a deposit too. In the calm there is
// one operation more than cores: from one that ends to the next that begins a core
// would stand idle for some µs.
type cores struct {
	// rest returns when whatever else could run has run.
	rest        func()
	messages    atomic.Int64 // that are being worked, or wait for it
	withdrawals atomic.Int64 // that are claimed and not yet settled
	start       time.Time
	hurried     atomic.Int64 // when the last of them was settled, in ns from start on
	rested      atomic.Int64 // when one rested last, likewise

	n        int // cores
	mu       sync.Mutex
	busy     int // operations, at most n+1
	released int
	waiting  [turns][]chan struct{} // first come, first served within a turn
}

// newCores begins in the calm.
func newCores(n int) *cores {
	return &cores{n: n, rest: runtime.Gosched, start: time.Now().Add(-2 * calmAfter)}
}

// most is how many operations there may be.
func (c *cores) most() int {
	if c.calm() {
		return c.n + 1
	}
	return c.n
}

// calm says that no withdrawal is under way nor was a moment ago.
func (c *cores) calm() bool {
	return c.withdrawals.Load() == 0 && c.now()-time.Duration(c.hurried.Load()) > calmAfter
}

// now is the time since start.
func (c *cores) now() time.Duration { return time.Since(c.start) }

// hurry says how many withdrawals are claimed and not yet settled.
func (c *cores) hurry(withdrawals int) {
	if c.withdrawals.Store(int64(withdrawals)); withdrawals == 0 {
		c.hurried.Store(int64(c.now()))
	}
}

// each runs the RSA operations f(0) to f(n-1) of one message when a core is free,
// and on further cores where nobody waits for those. It fails only where ctx ends
// before the first.
func (c *cores) each(ctx context.Context, t turn, n int, f func(int)) error {
	c.messages.Add(1)
	defer c.messages.Add(-1)
	if err := c.acquire(ctx, t); err != nil {
		return err
	}
	var next atomic.Int64
	work := func() {
		var rested time.Duration
		for i := next.Add(1); int(i) <= n; i = next.Add(1) {
			if !t.ofWithdrawal() {
				c.giveWay(t)
			}
			// The only message keeps nobody waiting for longer than a block
			// takes, and a rest on idle cores takes as long as waking them.
			if c.messages.Load() > 1 && c.tired(rested) {
				c.rest()
				rested = c.now()
				c.rested.Store(int64(rested))
			}
			f(int(i - 1))
		}
	}
	var others sync.WaitGroup
	defer others.Wait() // a panic of one, too, ends when all have
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
		panic(p) // where the caller of this can deal with it
	default:
		return nil
	}
}

// tired says whether it is time to rest for one who did at rested.
func (c *cores) tired(rested time.Duration) bool {
	now := c.now()
	if !c.calm() {
		return now-rested > slice
	}
	last := c.rested.Load()
	return now-time.Duration(last) > calmSlice && c.rested.CompareAndSwap(last, int64(now))
}

// acquire waits for a core. It fails only where ctx ends first.
func (c *cores) acquire(ctx context.Context, t turn) error {
	c.mu.Lock()
	if c.busy < c.most() {
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
	return nil // it was given between the two
}

// spare takes a core that nobody else wants.
func (c *cores) spare() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy >= c.n {
		return false
	}
	c.busy++
	return true
}

// giveWay lets a withdrawal that waits have the core of t, and waits for the next
// one, before all others of the turn: it is in the middle of its message. So it does
// where there is one operation too many because the calm has ended.
func (c *cores) giveWay(t turn) {
	c.mu.Lock()
	if len(c.waiting[turnWithdrawOpen])+len(c.waiting[turnWithdrawSeal]) == 0 && c.busy <= c.most() {
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

// pass gives what has come free to who is next.
func (c *cores) pass() {
	c.busy--
	c.released++
	order := [turns]turn{turnWithdrawOpen, turnWithdrawSeal, turnNotifyOpen, turnNotifySeal}
	if c.released%notifyShare == 0 {
		order = [turns]turn{turnNotifyOpen, turnNotifySeal, turnWithdrawOpen, turnWithdrawSeal}
	}
	for _, t := range order {
		for len(c.waiting[t]) > 0 && c.busy < c.most() {
			close(c.waiting[t][0])
			c.waiting[t][0] = nil
			c.waiting[t] = c.waiting[t][1:]
			c.busy++
		}
	}
}
