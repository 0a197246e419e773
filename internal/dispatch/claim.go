package dispatch

import (
	"context"
	"log/slog"
	"time"

	"countersign/internal/db"
	"countersign/internal/outbox"
)

const (
	claimBatch   = 256
	claimTimeout = 10 * time.Second
	// gather is how long a claim waits for more free workers if more callbacks are due than workers are free: few large
	// claims cost less than many small ones.
	gather = 5 * time.Millisecond
	// nap follows a claim that found nothing although a callback was due, because another node was faster.
	nap          = 10 * time.Millisecond
	claimBackoff = 100 * time.Millisecond
	claimSlowest = time.Second
)

// run claims until stop ends. After a wake-up it claims at once. Otherwise it asks NextDue first, which costs less than
// a claim: an attempt that ended may have freed capacity of its merchant.
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
		// A wake-up shows that the database takes commits again: this node listens again, or another one has committed
		// work.
		l.wait(stop, wake, backoff)
		backoff = min(2*backoff, claimSlowest)
	}
	claimNow, full := true, false
	for stop.Err() == nil {
		looked := !claimNow
		if looked {
			ctx, cancel := context.WithTimeout(stop, claimTimeout)
			_, share := l.places()
			next, err := l.d.cfg.Outbox.NextDue(ctx, l.id, share)
			cancel()
			if err != nil {
				failed(err)
				continue
			}
			if now := l.d.now(); next > now {
				claimNow = l.wait(stop, wake, min(time.Duration(min(next-now, 3_600_000))*time.Millisecond,
					l.d.cfg.Poll)) // Never would overflow
				continue
			}
		}
		most, share := l.room(stop, full)
		if most == 0 {
			return
		}
		n, err := l.claim(stop, work, most, share)
		if err != nil {
			claimNow = false
			failed(err)
			continue
		}
		backoff = claimBackoff
		if n == 0 && looked {
			db.Sleep(stop, nap)
		}
		full = n == most
		claimNow = full
	}
}

// wait returns when there may be something to claim, and reports whether a wake-up ended it.
func (l *lane) wait(stop context.Context, wake <-chan struct{}, longest time.Duration) bool {
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case <-wake:
		return true
	case <-l.freed:
		if l.load() >= busy {
			db.Sleep(stop, gather) // more callbacks are about to end
		}
	case <-t.C:
	case <-stop.Done():
	}
	return false
}

// room waits for free places and returns how much to claim, 0 if stop has ended. If the last claim was full, it waits
// briefly for more than one place.
func (l *lane) room(stop context.Context, full bool) (most, share int) {
	enough := 1
	var patience <-chan time.Time
	if full {
		enough = max(1, min(l.width, l.ahead)/8)
		t := time.NewTimer(gather)
		defer t.Stop()
		patience = t.C
	}
	for {
		most, share = l.places()
		if stop.Err() != nil {
			return 0, 0
		}
		if most >= enough || most > 0 && patience == nil {
			return most, share
		}
		select {
		case <-l.freed:
		case <-patience:
			patience = nil
		case <-stop.Done():
		}
	}
}

// claim claims up to most callbacks and starts an exchange for each. A claim that has begun is not interrupted, because
// its callbacks would wait for their leases to end.
func (l *lane) claim(stop, work context.Context, most, share int) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(stop), claimTimeout)
	defer cancel()
	now := l.d.cfg.Now()
	claimed, err := l.d.cfg.Outbox.Claim(ctx, outbox.ClaimRequest{
		Lane: l.id, Now: db.MillisOf(now), LeaseUntil: db.MillisOf(now.Add(l.d.cfg.lease())), Max: most,
		Share: share,
	})
	if err != nil {
		return 0, err
	}
	if len(claimed) > 0 {
		l.count(len(claimed), len(claimed))
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

// work makes attempts until stop ends. A new goroutine for each attempt would copy its growing stack several times.
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
