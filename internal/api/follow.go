package api

import (
	"context"
	"time"
)

// maxWait is the longest wait of a feed's reader. A waiting reader also polls every pollEvery, because a wake-up
// between nodes can get lost.
const (
	maxWait       = time.Minute
	pollEvery     = 2 * time.Second
	answerTimeout = 30 * time.Second // to write an answer after the wait
)

// Follow calls read until it finds something, wait (at most a minute) has passed, or the end stops. If nothing is
// found, the answer is empty. Subscribe to wake before calling Follow, or a change in between is missed. A nil wake
// is never ready.
func (c *Call) Follow(wait time.Duration, wake <-chan struct{}, read func(context.Context) (found bool, err error)) error {
	if wait < 0 || wait > maxWait {
		return Invalid(At("query.wait", "is not between 0s and 60s"))
	}
	found, err := read(c.R.Context())
	if found || err != nil || wait == 0 {
		return err
	}
	c.stopRead() // waiting reads nothing
	ctx := c.R.Context()
	// The server's own time-outs assume answers that do not wait.
	c.WriteWithin(wait + answerTimeout)
	over := time.NewTimer(wait)
	defer over.Stop()
	look := time.NewTicker(pollEvery)
	defer look.Stop()
	for {
		select {
		case <-wake:
		case <-look.C:
		case <-over.C:
			return nil
		case <-c.a.stopping.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		// The token may be revoked meanwhile.
		if err := c.CheckToken(); err != nil {
			return err
		}
		if err := c.beginRead(); err != nil {
			return err
		}
		found, err := read(c.R.Context())
		c.stopRead()
		if found || err != nil {
			return err
		}
	}
}
