package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"countersign/client"
)

const (
	maxReads      = 8               // reads at once, of all tokens
	maxTokenReads = maxReads / 2    // reads at once, of one token
	maxQueued     = 64              // reads of one token that run or wait
	readPatience  = 2 * time.Second // how long a read waits at most
	readTimeout   = 10 * time.Second
)

// errReads is the problem of a read that waited too long, or that has too many others before it.
var errReads = busy("too many reads at once; repeat the request later")

// busy returns a 503 for a cause that may pass within a second.
func busy(detail string) *client.Problem {
	p := NewProblem(http.StatusServiceUnavailable, detail)
	p.RetryAfter = time.Second
	return p
}

// reads limits how many reads run at once, so that callers who read in a loop cannot occupy the database or the
// processor. One token gets at most half of them.
type reads struct {
	patience time.Duration
	all      chan struct{} // holds a value for each read that runs
}

func newReads() *reads { return &reads{readPatience, make(chan struct{}, maxReads)} }

// enter waits until a token with these bounds may read. The caller must call leave when the read is done.
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

// beginRead waits until a call may read, and limits the time of the read. A call that changes something does not
// wait.
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

// stopRead ends the turn that beginRead began.
func (c *Call) stopRead() {
	if c.endRead != nil {
		c.endRead()
	}
}
