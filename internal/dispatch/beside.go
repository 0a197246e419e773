package dispatch

import (
	"context"
	"errors"

	"countersign"
)

// ErrAsideFull means that as much work waits beside the sending as may.
var ErrAsideFull = errors.New("as many keys are being made and checked as may be at once: try again in a minute")

// asideMost is how many pieces of work may wait. One takes seconds at 4096 bits, and who waits
// for it has two minutes.
const asideMost = 8

// aside is work beside the sending that keeps a core for long, such as making a key.
type aside struct {
	places chan struct{} // of what works or waits
	turn   chan struct{} // of what works
}

func newAside() *aside {
	return &aside{places: make(chan struct{}, asideMost), turn: make(chan struct{}, 1)}
}

// Aside runs f as one message more of the notify lane, so it takes no core from the lane of
// withdrawals. One runs at a time, so that it never has more than one core. Its error is ErrAsideFull where many wait, or that of ctx; then f did
// not run.
func (d *Dispatcher) Aside(ctx context.Context, f func()) error {
	select {
	case d.aside.places <- struct{}{}:
	default:
		return ErrAsideFull
	}
	defer func() { <-d.aside.places }()
	select {
	case d.aside.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.aside.turn }()
	if err := d.cores.acquire(ctx, countersign.LaneNotify); err != nil {
		return err
	}
	defer d.cores.release(countersign.LaneNotify)
	f()
	return nil
}
