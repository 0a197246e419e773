package merchant

import (
	"context"
	"errors"
	"net/http"
	"time"

	"countersign"
	"countersign/internal/web"
)

// retryAfter is the Retry-After of a request that waited or would wait too long
// to be opened, in seconds.
const retryAfter = "1"

var errOpenings = errors.New("too many requests wait to be opened with the private part")

// openings bounds how many requests are opened at once. One block takes the
// private part from a fraction of a millisecond at 1024 bits to tens of
// milliseconds at 8192, and a body has up to 384 blocks, so without a bound a peer
// occupies every processor. nil bounds nothing: the public part takes
// microseconds.
type openings struct {
	size     int           // of the shortest key, in bytes
	slots    chan struct{} // holds a value for each that is being opened
	patience time.Duration // how long a request waits
	waiting  *web.Budget   // of blocks of requests that wait
}

// newOpenings returns nil where the public part opens. c is complete.
func newOpenings(c *Config) *openings {
	if !c.Key.HasPrivate() {
		return nil
	}
	size := c.Key.Size()
	if c.NextKey != nil {
		size = min(size, c.NextKey.Size())
	}
	return &openings{size: size, slots: make(chan struct{}, c.MaxOpening), patience: c.Timeout,
		waiting: web.NewBudget(int64(c.MaxWaitingBlocks))}
}

// enter waits until a request with a body of size bytes may be opened. It fails if too
// many blocks wait, if ctx ends, and after patience. Call leave when the request is
// opened.
func (o *openings) enter(ctx context.Context, size int) (leave func(), err error) {
	if o == nil {
		return func() {}, nil
	}
	leave = func() { <-o.slots }
	select {
	case o.slots <- struct{}{}:
		return leave, nil
	default:
	}
	blocks := size/4*3/o.size + 1
	if !o.waiting.Take(blocks) {
		return nil, errOpenings
	}
	defer o.waiting.Give(blocks)
	timer := time.NewTimer(o.patience)
	defer timer.Stop()
	select {
	case o.slots <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, errOpenings
	}
}

func overloaded(cause error) *reply {
	return refuse(http.StatusServiceUnavailable, countersign.CodeInternal, wordOverload, ReasonOverload, cause)
}
