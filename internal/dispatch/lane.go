package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

const (
	claimBatch   = 256
	claimTimeout = 10 * time.Second
	// gather is how long a claim waits for more free workers if there are more due
	// callbacks than workers: few large claims cost less than many small ones.
	gather = 5 * time.Millisecond
	// nap follows a claim that found nothing although a callback was due, because
	// another node was faster.
	nap          = 10 * time.Millisecond
	claimBackoff = 100 * time.Millisecond
	claimSlowest = time.Second
)

// lane claims callbacks of one lane and counts those in flight.
type lane struct {
	d       *Dispatcher
	id      countersign.Lane
	workers int
	ended   chan ended
	jobs    chan outbox.Claimed // for idle workers

	mu       sync.Mutex
	inFlight int
	freed    chan struct{} // buffered 1: a callback has ended
	running  sync.WaitGroup
}

func newLane(d *Dispatcher, id countersign.Lane, workers int) *lane {
	return &lane{d: d, id: id, workers: workers, ended: make(chan ended, settleBatch), jobs: make(chan outbox.Claimed),
		freed: make(chan struct{}, 1)}
}

// held is how many callbacks are claimed and not yet settled.
func (l *lane) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

func (l *lane) free() int { return l.workers - l.held() }

func (l *lane) add(n int) {
	l.mu.Lock()
	l.inFlight += n
	now := l.inFlight
	l.mu.Unlock()
	l.d.cfg.Observer.InFlight(l.id, now)
}

// done counts one callback as ended after it was settled. Only then may its merchant
// get another one.
func (l *lane) done() {
	l.add(-1)
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// run claims until stop ends. After a wake-up it claims at once. Otherwise it asks
// NextDue first, which costs less than a claim: an attempt that ended may have freed
// capacity of its merchant.
func (l *lane) run(stop, work context.Context) {
	wake, unwatch := l.d.cfg.Outbox.Watch(outbox.TopicOf(l.id))
	defer unwatch()
	backoff := claimBackoff
	failed := func(err error) {
		if stop.Err() != nil {
			return
		}
		l.d.cfg.Log.LogAttrs(work, slog.LevelError, "claiming failed",
			slog.String("lane", l.id.String()), slog.String("error", err.Error()))
		// A wake-up shows that the database takes commits again: this node listens
		// again, or another one has committed work.
		l.wait(stop, wake, backoff)
		backoff = min(2*backoff, claimSlowest)
	}
	claimNow, full := true, false
	for stop.Err() == nil {
		looked := !claimNow
		if looked {
			now := l.d.now()
			next, err := l.nextDue(stop, now)
			if err != nil {
				failed(err)
				continue
			}
			if next > now {
				claimNow = l.wait(stop, wake, min(atMostHour(next-now), l.d.cfg.Poll))
				continue
			}
		}
		limit := l.room(stop, full)
		if limit == 0 {
			return
		}
		n, err := l.claim(stop, work, limit)
		if err != nil {
			claimNow = false
			failed(err)
			continue
		}
		backoff = claimBackoff
		if n == 0 && looked {
			sleep(stop, nap)
		}
		full = n == limit
		claimNow = full
	}
}

// atMostHour gives ms as a duration of at most an hour. Never would overflow.
func atMostHour(ms db.Millis) time.Duration {
	return time.Duration(min(ms, db.Millis(time.Hour.Milliseconds()))) * time.Millisecond
}

func (l *lane) nextDue(stop context.Context, now db.Millis) (db.Millis, error) {
	ctx, cancel := context.WithTimeout(stop, claimTimeout)
	defer cancel()
	return l.d.cfg.Outbox.NextDue(ctx, l.id, now)
}

// wait returns when there may be something to claim. It reports whether a wake-up ended
// it.
func (l *lane) wait(stop context.Context, wake <-chan struct{}, longest time.Duration) bool {
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case <-wake:
		return true
	case <-l.freed:
		if l.held() >= busy {
			sleep(stop, gather) // more callbacks are about to end
		}
	case <-t.C:
	case <-stop.Done():
	}
	return false
}

// room waits for free workers and gives the number of callbacks to claim, 0 if stop
// has ended. If the last claim was full, it waits briefly for more than one worker.
func (l *lane) room(stop context.Context, full bool) int {
	enough := 1
	var patience <-chan time.Time
	if full {
		enough = max(1, l.workers/8)
		t := time.NewTimer(gather)
		defer t.Stop()
		patience = t.C
	}
	for {
		free := l.free()
		if stop.Err() != nil {
			return 0
		}
		if free >= enough || free > 0 && patience == nil {
			return min(free, claimBatch)
		}
		select {
		case <-l.freed:
		case <-patience:
			patience = nil
		case <-stop.Done():
		}
	}
}

// claim claims up to limit callbacks and starts an exchange for each. A claim that has
// begun is not interrupted, because its callbacks would wait for their leases to end.
func (l *lane) claim(stop, work context.Context, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), claimTimeout)
	defer cancel()
	now := l.d.cfg.Now()
	claimed, err := l.d.cfg.Outbox.Claim(ctx, outbox.ClaimRequest{
		Lane: l.id, Node: l.d.cfg.Node, Now: db.MillisOf(now), LeaseUntil: db.MillisOf(now.Add(l.d.cfg.Lease)), Max: limit,
	})
	if err != nil {
		return 0, err
	}
	if len(claimed) > 0 {
		l.add(len(claimed))
		l.d.cfg.Observer.Claimed(l.id, len(claimed))
	}
	for _, c := range claimed {
		select {
		case l.jobs <- c:
		default:
			l.running.Go(func() { l.work(stop, work, c) })
		}
	}
	return len(claimed), nil
}

// work makes attempts until stop ends. A new goroutine for each attempt would copy its
// growing stack several times.
func (l *lane) work(stop, work context.Context, c outbox.Claimed) {
	for {
		l.ended <- l.d.attempt(stop, work, c)
		select {
		case c = <-l.jobs:
		case <-stop.Done():
			return
		}
	}
}
