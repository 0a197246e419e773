package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"countersign/client"
)

const (
	maxReads      = 8               // reads of an API at once
	maxTokenReads = maxReads / 2    // of one token
	maxQueued     = 64              // reads of one token that are made or wait
	readPatience  = 2 * time.Second // of a read that waits
	readTimeout   = 10 * time.Second
)

// errReads is the problem of a read that waited too long, or behind too many others.
var errReads = busy("too many reads at once; repeat the request later")

// busy makes a 503 that may be gone within a second.
func busy(detail string) *client.Problem {
	p := NewProblem(http.StatusServiceUnavailable, detail)
	p.RetryAfter = time.Second
	return p
}

// reads bounds how many reads run at once, so that callers who read in a loop cannot
// occupy the database or the processor. One token gets half of them at most.
type reads struct {
	patience time.Duration
	all      chan struct{} // holds a value for each read that is made
}

func newReads() *reads { return &reads{readPatience, make(chan struct{}, maxReads)} }

// enter waits until the token with these bounds may read. leave must be called at the end.
func (r *reads) enter(ctx context.Context, of *bounds) (leave func(), err error) {
	select {
	case of.queued <- struct{}{}:
	default:
		return nil, errReads
	}
	taken := []chan struct{}{of.queued}
	leave = func() {
		for _, c := range slices.Backward(taken) {
			<-c
		}
	}
	over := time.NewTimer(r.patience)
	defer over.Stop()
	for _, c := range []chan struct{}{of.reads, r.all} {
		select {
		case c <- struct{}{}:
			taken = append(taken, c)
			continue
		case <-over.C:
			err = errReads
		case <-ctx.Done():
			err = ctx.Err()
		}
		leave()
		return nil, err
	}
	return leave, nil
}

// beginRead waits for the turn of a call that reads, and bounds its time. A call that
// changes something does not wait.
func (c *Call) beginRead() error {
	if c.rt.open() || c.R.Method != http.MethodGet {
		return nil
	}
	leave, err := c.a.reads.enter(c.R.Context(), c.a.boundsOf(c.Token.ID))
	if err != nil {
		return err
	}
	whole := c.R
	ctx, cancel := context.WithTimeout(whole.Context(), readTimeout)
	c.R = whole.WithContext(ctx)
	c.endRead = func() {
		cancel()
		leave()
		c.R, c.endRead = whole, nil
	}
	return nil
}

// stopRead ends what beginRead has begun.
func (c *Call) stopRead() {
	if c.endRead != nil {
		c.endRead()
	}
}
