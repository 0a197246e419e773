package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"countersign/internal/db"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
)

// patience is how long a rig waits for the next callback to settle before it
// calls the rest lost.
const patience = 2 * time.Minute

// tracker counts the callbacks that have ended, and measures the time of those
// that a distribution is taken of.
type tracker struct {
	accepted atomic.Int64
	failed   atomic.Int64
	news     chan struct{} // gets a value when a callback has ended; buffered 1

	mu      sync.Mutex
	timed   map[string]*latencies // the distribution of a callback that has begun and not ended, by key
	early   map[string]time.Time  // ends of callbacks whose beginning is not known yet, while measuring
	measure int                   // distributions that are being taken
}

func newTracker() *tracker {
	return &tracker{news: make(chan struct{}, 1), timed: map[string]*latencies{}, early: map[string]time.Time{}}
}

// measuring counts the distributions that are being taken: 1 begins one, -1 ends it. Only
// while there are some are ends remembered whose beginning is not known yet.
func (t *tracker) measuring(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.measure += n; t.measure == 0 {
		clear(t.early)
	}
}

// begin notes that the callback key was due at a time, and that its duration belongs
// to l. Its end may already be known.
func (t *tracker) begin(l *latencies, key string, due time.Time) {
	l.begin(key, due)
	t.mu.Lock()
	defer t.mu.Unlock()
	if ended, ok := t.early[key]; ok {
		delete(t.early, key)
		l.end(key, ended)
		return
	}
	t.timed[key] = l
}

// end notes that the callback key has become final.
func (t *tracker) end(key string, accepted bool, at time.Time) {
	t.mu.Lock()
	if l := t.timed[key]; l != nil {
		delete(t.timed, key)
		l.end(key, at)
	} else if t.measure > 0 {
		t.early[key] = at
	}
	t.mu.Unlock()
	if accepted {
		t.accepted.Add(1)
	} else {
		t.failed.Add(1)
	}
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// wait returns when n callbacks in all have been accepted. It fails if one ended
// otherwise, or if none ends for patience.
func (t *tracker) wait(ctx context.Context, n int64) error {
	idle := time.NewTimer(patience)
	defer idle.Stop()
	for t.accepted.Load() < n {
		if failed := t.failed.Load(); failed > 0 {
			return fmt.Errorf("%d callbacks ended without being accepted", failed)
		}
		select {
		case <-t.news:
			idle.Reset(patience)
		case <-ctx.Done():
			return ctx.Err()
		case <-idle.C:
			return fmt.Errorf("%d of %d callbacks settled, and none of the others within %v", t.accepted.Load(), n, patience)
		}
	}
	return nil
}

// watchedOutbox tells the tracker of every settlement once it is durable, which
// is a moment before the dispatcher knows.
type watchedOutbox struct {
	dispatch.Outbox
	tracker *tracker
	claims  atomic.Int64 // that found something
	settles atomic.Int64
}

// Claim counts claims.
func (o *watchedOutbox) Claim(ctx context.Context, r outbox.ClaimRequest) ([]outbox.Claimed, error) {
	claimed, err := o.Outbox.Claim(ctx, r)
	if len(claimed) > 0 {
		o.claims.Add(1)
	}
	return claimed, err
}

// Settle counts settlements and tells of the callbacks that have ended.
func (o *watchedOutbox) Settle(ctx context.Context, list []outbox.Settlement, now db.Millis) ([]outbox.Settled, error) {
	settled, err := o.Outbox.Settle(ctx, list, now)
	if err != nil {
		return settled, err
	}
	at := time.Now()
	o.settles.Add(1)
	for i, s := range list {
		if settled[i].Applied && s.State != outbox.CallbackPending {
			o.tracker.end(s.CallbackID, s.State == outbox.CallbackAccepted, at)
		}
	}
	return settled, nil
}
