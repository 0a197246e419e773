package api

import (
	"context"
	"net/http"
	"time"

	"countersign/client"
)

const (
	// maxTokenReads is how many reads of one token run at once. It is less than the connections that the lists of an
	// end have together (db.DB.ForLists), so that callers who read in a loop leave some to the others.
	maxTokenReads = 3
	readPatience  = 2 * time.Second // how long a read waits at most
	readTimeout   = 10 * time.Second
)

// errReads is the problem of a read that waited too long.
var errReads = busy("too many reads at once; repeat the request later")

// busy returns a 503 for a cause that may pass within a second.
func busy(detail string) *client.Problem {
	p := NewProblem(http.StatusServiceUnavailable, detail)
	p.RetryAfter = time.Second
	return p
}

// beginRead waits until a call may read, and limits the time of the read. A call that changes something does not
// wait.
func (c *Call) beginRead() error {
	if c.rt.open() || c.R.Method != http.MethodGet {
		return nil
	}
	reads, whole := c.a.boundsOf(c.Token.ID).reads, c.R
	patience, enough := context.WithTimeoutCause(whole.Context(), c.a.patience, errReads)
	defer enough()
	select {
	case reads <- struct{}{}:
	case <-patience.Done():
		return context.Cause(patience)
	}
	ctx, cancel := context.WithTimeout(whole.Context(), readTimeout)
	c.R = whole.WithContext(ctx)
	c.endRead = func() {
		cancel()
		<-reads
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
