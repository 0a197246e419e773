package dispatch

import (
	"errors"
	"slices"
	"sync"
	"time"

	"countersign"
	"countersign/internal/outbox"
)

// errNotOpened means that too many answers of this merchant did not open, so this one was not tried.
var errNotOpened = errors.New("not opened")

// failureWindow is how long a failure to open counts, as in the outbox.
const failureWindow = time.Hour

// openings bounds how many answers of one merchant this node opens at once, so that nobody can try many blocks before
// the outbox pauses the merchant for its failures (PROTOCOL.md, Sealing, S7). Each lane has as many places as answers
// that may be opened at once. A failure keeps its place until it is settled, so the pause counts it before another
// answer is opened in its place. Once the outbox has counted OpenFailureLimit failures, nothing more is opened: that
// merchant is paused, and gets new openings when it is resumed.
type openings struct {
	places [2]chan struct{} // by lane: answers being opened, or failed and not settled
	now    func() time.Time

	mu     sync.Mutex
	closed bool
	failed []time.Time // failures of this node within failureWindow
}

func newOpenings(most int, now func() time.Time) *openings {
	return &openings{places: [2]chan struct{}{make(chan struct{}, most), make(chan struct{}, most)}, now: now}
}

// enter waits at most this long for a place. It returns false if the answer is not to be opened; otherwise leave, or
// fail and settled, must follow.
func (o *openings) enter(lane countersign.Lane, wait time.Duration) bool {
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case o.places[lane] <- struct{}{}:
	case <-late.C:
		return false
	}
	if o.shut() {
		o.leave(lane)
		return false
	}
	return true
}

// leave frees the place of an answer that opened.
func (o *openings) leave(lane countersign.Lane) { <-o.places[lane] }

// fail notes that data did not open, or opened to no answer.
func (o *openings) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = append(o.failed, o.now())
}

// settled frees the place of a failure. counted is how many failures of the merchant the outbox has counted on all
// nodes, or 0 if that is not known.
func (o *openings) settled(lane countersign.Lane, counted int) {
	o.mu.Lock()
	o.closed = o.closed || counted >= outbox.OpenFailureLimit
	o.mu.Unlock()
	o.leave(lane)
}

// shut reports whether nothing is to be opened: the outbox has paused the merchant, or would have if it could be
// reached.
func (o *openings) shut() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := o.now().Add(-failureWindow)
	o.failed = slices.DeleteFunc(o.failed, func(t time.Time) bool { return t.Before(since) })
	return o.closed || len(o.failed) >= outbox.OpenFailureLimit
}
