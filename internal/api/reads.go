package api

import (
	"context"
	"net/http"
	"sync"
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

	mu sync.Mutex
	of map[string]*tokenReads // by token id; only those that have reads
}

type tokenReads struct {
	made chan struct{} // holds a value for each read that is made or waits for all
	n    int           // reads that are made or wait
}

func newReads() *reads {
	return &reads{patience: readPatience, all: make(chan struct{}, maxReads), of: map[string]*tokenReads{}}
}

// enter waits until the token may read. leave must be called at the end.
func (r *reads) enter(ctx context.Context, token string) (leave func(), err error) {
	r.mu.Lock()
	t := r.of[token]
	if t == nil {
		t = &tokenReads{made: make(chan struct{}, maxTokenReads)}
		r.of[token] = t
	}
	if t.n == maxQueued {
		r.mu.Unlock()
		return nil, errReads
	}
	t.n++
	r.mu.Unlock()
	gone := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if t.n--; t.n == 0 {
			delete(r.of, token)
		}
	}
	over := time.NewTimer(r.patience)
	defer over.Stop()
	wait := func(c chan struct{}) error {
		select {
		case c <- struct{}{}:
			return nil
		case <-over.C:
			return errReads
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := wait(t.made); err != nil {
		gone()
		return nil, err
	}
	if err := wait(r.all); err != nil {
		<-t.made
		gone()
		return nil, err
	}
	return func() { <-r.all; <-t.made; gone() }, nil
}

// beginRead waits for the turn of a call that reads, and bounds its time. A call that
// changes something does not wait.
func (c *Call) beginRead() error {
	if c.rt.open() || c.R.Method != http.MethodGet {
		return nil
	}
	leave, err := c.a.reads.enter(c.R.Context(), c.Token.ID)
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
