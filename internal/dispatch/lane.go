package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Dispatcher sends callbacks.
type Dispatcher struct {
	cfg       Config
	transport *transport
	post      func(context.Context, request) Response // transport.post, except in tests without a network
	merchants *cachedMerchants
	cores     *cores
	lanes     [2]*lane
	ran       atomic.Bool
}

func (d *Dispatcher) now() db.Millis { return db.MillisOf(d.cfg.Now()) }

// lane claims callbacks of one lane and counts those in flight.
//
// One rule shares its places, so that no merchant takes those of another. Merchants with nothing in flight are served
// first (outbox.Claim), and an eighth of the places is for them alone. A merchant gets more only while it has less in
// flight than a third of the other places that are free. So one merchant gets a quarter of the lane at most. The more
// merchants are slow, the less each has, and some places stay free. A merchant's callbacks in flight are counted on all
// nodes, the places on this one.
//
// A place in the lane is cheap and RSA is not. Therefore at most ahead callbacks are claimed and not yet sent, a
// quarter of them again for merchants with nothing in flight. So a claim is never far ahead of RSA, and work goes to
// nodes that can do it.
type lane struct {
	d     *Dispatcher
	id    countersign.Lane
	width int // places
	ahead int
	ended chan ended
	jobs  chan outbox.Claimed // for idle workers

	mu       sync.Mutex
	inFlight int
	unsent   int           // of inFlight, those that were not sent yet
	freed    chan struct{} // buffered 1: a callback has ended, or was sent and others may wait for that
	running  sync.WaitGroup
}

// ended is a claimed callback after its attempt, or one to give back without an attempt.
type ended struct {
	claimed    outbox.Claimed
	giveBack   bool
	settlement outbox.Settlement
	verdict    Verdict
	took       time.Duration
	plain      []byte    // the plaintext that was sent
	opening    *openings // waits for the settlement of an answer that did not open; else nil
}

// places returns how many callbacks to claim, 0 if no place is free, and how many of one merchant may then be in
// flight.
func (l *lane) places() (most, share int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return placesOf(l.width, l.width-l.inFlight, l.ahead, l.ahead-l.unsent)
}

// placesOf is the rule in lane's comment. Of width places, free are free; ahead callbacks may be unsent, more of them
// still.
func placesOf(width, free, ahead, more int) (most, share int) {
	common, soon := free-width/8, more-ahead/4
	if common <= 0 || soon <= 0 {
		return max(0, min(free, more)), 1
	}
	return min(common, soon), max(1, min(width/4, common/3))
}

// count changes how many callbacks are in flight, and how many of them are not sent.
func (l *lane) count(inFlight, unsent int) {
	l.mu.Lock()
	l.inFlight += inFlight
	l.unsent += unsent
	now := l.inFlight
	l.mu.Unlock()
	l.d.cfg.Observer.InFlight(l.id, now)
}

// sent notes that a callback was sent, or will not be.
func (l *lane) sent() {
	l.mu.Lock()
	_, was := placesOf(l.width, l.width-l.inFlight, l.ahead, l.ahead-l.unsent)
	l.unsent--
	l.mu.Unlock()
	if was == 1 {
		l.wakeUp()
	}
}

// done counts one callback as ended once it is settled. Only then may its merchant get another one.
func (l *lane) done() {
	l.count(-1, 0)
	l.wakeUp()
}

func (l *lane) wakeUp() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}
