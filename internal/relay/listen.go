package relay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/db"
)

// listenCheck is how often the listening connection is tested, and how long it may take to answer.
const listenCheck = 5 * time.Second

// listen wakes the relay at notifications until ctx ends. The poll finds what it misses.
func (r *Relay) listen(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		listened, err := r.links.Listen(ctx, "countersign_outbox", listenCheck, func() {
			r.state.set(partNotices, nil)
			r.ring() // something may have been missed
		}, func(*pgconn.Notification) { r.ring() })
		if ctx.Err() != nil {
			return
		}
		if listened {
			failures = 0
		}
		failures++
		r.state.set(partNotices, err)
		db.Sleep(ctx, pauseAfter(failures, r.c.lastPause))
	}
}

// ring wakes the relay.
func (r *Relay) ring() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
