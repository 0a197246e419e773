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

const (
	// lead is the credit of RSA time of a merchant that was idle: its next messages come
	// before those of the others.
	lead = 10 * time.Millisecond
	// stretch is how long a message may keep its core while a merchant that used less RSA
	// time waits. Messages of the usual size take less.
	stretch = 5 * time.Millisecond
)

// account is the RSA time of one merchant and its messages that wait for a core. It is
// guarded by cores.mu.
type account struct {
	used    time.Duration          // as compared with other accounts; see cores.clock
	waiting [turns][]chan struct{} // first come, first served within a turn
}

// cores bounds how many RSA operations run at once. Both lanes share it;
// withdrawals go first, between the blocks of a deposit too. Within a lane the core
// goes to the merchant that has used the least time, so a merchant whose messages
// take long has no more than its share while others wait.
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
	waiting  [turns]int // messages
	accounts []*account // that have messages waiting
	// clock is the most that an account had used when it was given a core. An account
	// that did nothing meanwhile goes on from there, less lead.
	clock time.Duration
}

func newCores(n int) *cores { return &cores{n: n, most: n + 1, rest: runtime.Gosched} }

// each runs the RSA operations f(0) to f(n-1) of one message when a core is free, and
// on more cores if no other message waits for them. It gives the time that they took
// together. It fails only if ctx ends before the first operation.
func (c *cores) each(ctx context.Context, a *account, t turn, n int, f func(int)) (took time.Duration, err error) {
	c.messages.Add(1)
	defer c.messages.Add(-1)
	if err := c.acquire(ctx, a, t); err != nil {
		return 0, err
	}
	var next, total atomic.Int64
	work := func() {
		var rested time.Time        // zero, so that a message rests before its first block
		var unpaid time.Duration    // of this core, not yet in a.used
		var sinceTurn time.Duration // that this message has had the core
		defer func() { c.release(a, unpaid) }()
		for i := next.Add(1); int(i) <= n; i = next.Add(1) {
			if !t.ofWithdrawal() || sinceTurn > stretch {
				if c.giveWay(a, t, unpaid, sinceTurn > stretch) {
					sinceTurn = 0
				}
				unpaid = 0
			}
			// A single message delays others by at most one block, and resting on idle
			// cores costs as much as waking them.
			if c.messages.Load() > 1 && time.Since(rested) > slice {
				c.rest()
				rested = time.Now()
			}
			start := time.Now()
			f(int(i - 1))
			spent := time.Since(start)
			unpaid, sinceTurn = unpaid+spent, sinceTurn+spent
			total.Add(int64(spent))
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

// acquire waits for a core. It fails only if ctx ends first.
func (c *cores) acquire(ctx context.Context, a *account, t turn) error {
	c.mu.Lock()
	a.used = max(a.used, c.clock-lead)
	if c.busy < c.most {
		c.give(a)
		c.mu.Unlock()
		return nil
	}
	ready := c.queue(a, t, len(a.waiting[t]))
	c.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(a.waiting[t], ready); i >= 0 {
		c.unqueue(a, t, i)
		return ctx.Err()
	}
	return nil // the core was given meanwhile
}

// queue makes a message of a wait at place at of its turn.
func (c *cores) queue(a *account, t turn, at int) (ready chan struct{}) {
	ready = make(chan struct{})
	if !a.waits() {
		c.accounts = append(c.accounts, a)
	}
	a.waiting[t] = slices.Insert(a.waiting[t], at, ready)
	c.waiting[t]++
	return ready
}

func (c *cores) unqueue(a *account, t turn, at int) {
	a.waiting[t] = slices.Delete(a.waiting[t], at, at+1)
	c.waiting[t]--
	if !a.waits() {
		i := slices.Index(c.accounts, a)
		c.accounts = slices.Delete(c.accounts, i, i+1)
	}
}

func (a *account) waits() bool {
	return slices.ContainsFunc(a.waiting[:], func(w []chan struct{}) bool { return len(w) > 0 })
}

// least is the account that has used the least of those that wait in turn t, nil if
// there is none.
func (c *cores) least(t turn) (least *account) {
	if c.waiting[t] == 0 {
		return nil
	}
	for _, a := range c.accounts {
		if len(a.waiting[t]) > 0 && (least == nil || a.used < least.used) {
			least = a
		}
	}
	return least
}

// next is the message of a lane that gets the next core: nil if none waits. open is the
// lane's turn to open. A message that is to be sealed comes first if its merchant has
// used much less.
func (c *cores) next(open turn) (*account, turn) {
	seal := open + 1
	opens, seals := c.least(open), c.least(seal)
	if opens == nil || seals != nil && seals.used+lead < opens.used {
		return seals, seal
	}
	return opens, open
}

// give counts a core as given to a.
func (c *cores) give(a *account) {
	c.busy++
	c.clock = max(c.clock, a.used)
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

// giveWay gives the core of a message of a to a waiting withdrawal, if the message is
// none, and if the message is long to a merchant of its lane that has used less. Then
// it waits for the next free core, before the others of its account and turn, because
// it has begun. It reports whether it did. spent is added to what a has used.
func (c *cores) giveWay(a *account, t turn, spent time.Duration, long bool) bool {
	c.mu.Lock()
	a.used += spent
	open := turnWithdrawOpen
	if !t.ofWithdrawal() && c.waiting[turnWithdrawOpen]+c.waiting[turnWithdrawSeal] == 0 {
		open = turnNotifyOpen
	}
	first, of := c.next(open)
	if first == nil || of.ofWithdrawal() == t.ofWithdrawal() && !(long && first.used < a.used) {
		c.mu.Unlock()
		return false
	}
	ready := c.queue(a, t, 0)
	c.pass()
	c.mu.Unlock()
	<-ready
	return true
}

// release ends the use of a core. spent is added to what a has used.
func (c *cores) release(a *account, spent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.used += spent
	c.pass()
}

// pass gives a free core to the next waiting message.
func (c *cores) pass() {
	c.busy--
	c.released++
	order := [2]turn{turnWithdrawOpen, turnNotifyOpen}
	if c.released%notifyShare == 0 {
		order = [2]turn{turnNotifyOpen, turnWithdrawOpen}
	}
	for _, open := range order {
		for c.busy < c.most {
			a, t := c.next(open)
			if a == nil {
				break
			}
			close(a.waiting[t][0])
			c.unqueue(a, t, 0)
			c.give(a)
		}
	}
}
