package dispatch

import (
	"context"
	"sync"

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

// notifyShare lets every so many-th free core go to the notify lane first, so
// that a flood of withdrawals slows deposits down and does not stop them.
const notifyShare = 8

// cores bounds how many RSA operations run at once. Both lanes share it;
// withdrawals go first.
type cores struct {
	mu       sync.Mutex
	free     int
	released int
	waiting  [turns][]chan struct{} // first come, first served within a turn
}

func newCores(n int) *cores { return &cores{free: n} }

// acquire waits for a core. It fails only where ctx ends first.
func (c *cores) acquire(ctx context.Context, t turn) error {
	c.mu.Lock()
	if c.free > 0 {
		c.free--
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
			c.waiting[t] = append(c.waiting[t][:i], c.waiting[t][i+1:]...)
			return ctx.Err()
		}
	}
	return nil // it was given between the two
}

func (c *cores) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released++
	order := [turns]turn{turnWithdrawOpen, turnWithdrawSeal, turnNotifyOpen, turnNotifySeal}
	if c.released%notifyShare == 0 {
		order = [turns]turn{turnNotifyOpen, turnNotifySeal, turnWithdrawOpen, turnWithdrawSeal}
	}
	for _, t := range order {
		if q := c.waiting[t]; len(q) > 0 {
			close(q[0])
			q[0] = nil
			c.waiting[t] = q[1:]
			return
		}
	}
	c.free++
}
