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
// the outbox pauses the merchant for its failures (PROTOCOL.md, Sealing, S7). As long as answers open, each lane opens
// as many at once as there are cores. After a failure only one answer at a time is opened, until one is good. A failure
// keeps its place until it is settled, so the pause counts it before another answer is opened in its place. Once the
// outbox has counted OpenFailureLimit failures, nothing more is opened: that merchant is paused, and gets new openings
// when it is resumed.
type openings struct {
	most int // answers at once in each lane while all is well
	now  func() time.Time

	mu      sync.Mutex
	open    [2]int // answers being opened, or failed and not settled, by lane
	careful bool   // a failure came after the last good answer
	closed  bool
	failed  []time.Time // failures of this node within failureWindow
	waiting [2][]chan bool
}

func newOpenings(most int, now func() time.Time) *openings { return &openings{most: most, now: now} }

// enter waits at most this long for its turn. It returns false if the answer is not to be opened; otherwise leave, or
// fail and settled, must follow.
func (o *openings) enter(lane countersign.Lane, wait time.Duration) bool {
	o.mu.Lock()
	if o.shut() {
		o.mu.Unlock()
		return false
	}
	if len(o.waiting[lane]) == 0 && o.free(lane) {
		o.open[lane]++
		o.mu.Unlock()
		return true
	}
	turn := make(chan bool, 1)
	o.waiting[lane] = append(o.waiting[lane], turn)
	o.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case mayOpen := <-turn:
		return mayOpen
	case <-t.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.waiting[lane], turn); i >= 0 {
		o.waiting[lane] = slices.Delete(o.waiting[lane], i, i+1)
		return false
	}
	return <-turn // its turn came at the same moment
}

// leave ends the opening of an answer that did not fail. good means that it opened.
func (o *openings) leave(lane countersign.Lane, good bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if good {
		o.careful = false
	}
	o.open[lane]--
	o.next()
}

// fail notes that data did not open, or opened to no answer.
func (o *openings) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.careful = true
	o.failed = append(o.failed, o.now())
}

// settled frees the place of a failure. counted is how many failures of the merchant the outbox has counted on all
// nodes, or 0 if that is not known.
func (o *openings) settled(lane countersign.Lane, counted int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = o.closed || counted >= outbox.OpenFailureLimit
	o.open[lane]--
	o.next()
}

// shut reports whether nothing is to be opened: the outbox has paused the merchant, or would have if it could be
// reached.
func (o *openings) shut() bool {
	since := o.now().Add(-failureWindow)
	o.failed = slices.DeleteFunc(o.failed, func(t time.Time) bool { return t.Before(since) })
	return o.closed || len(o.failed) >= outbox.OpenFailureLimit
}

func (o *openings) free(lane countersign.Lane) bool {
	if o.careful {
		return o.open[countersign.LaneNotify]+o.open[countersign.LaneWithdraw] == 0
	}
	return o.open[lane] < o.most
}

// next gives turns to those who wait, withdrawals first.
func (o *openings) next() {
	shut := o.shut()
	for _, lane := range []countersign.Lane{countersign.LaneWithdraw, countersign.LaneNotify} {
		for len(o.waiting[lane]) > 0 && (shut || o.free(lane)) {
			if !shut {
				o.open[lane]++
			}
			o.waiting[lane][0] <- !shut
			o.waiting[lane] = o.waiting[lane][1:]
		}
	}
}
