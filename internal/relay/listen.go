package relay

import (
	"context"
	"errors"
	"time"
)

// listenCheck is how often the listening connection is tested, and how long it may take to
// answer: it would not report by itself that the server is gone.
const listenCheck = 5 * time.Second

// listen wakes the relay at notifications until ctx ends. What it misses, the poll finds.
func (r *Relay) listen(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		heard, err := r.hear(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			failures = 0
		}
		failures++
		r.state.set(partNotices, err)
		sleep(ctx, pauseAfter(failures, r.c.lastPause))
	}
}

// hear listens on a connection until it breaks. It reports whether it has listened.
func (r *Relay) hear(ctx context.Context) (bool, error) {
	start, cancel := context.WithTimeout(ctx, sqlTimeout)
	defer cancel()
	conn, err := r.links.Connect(start)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	const listen = `LISTEN countersign_outbox`
	if _, err := conn.Exec(start, listen); err != nil {
		return false, err
	}
	r.state.set(partNotices, nil)
	r.ring() // something may have been missed
	for {
		wait, cancel := context.WithTimeout(ctx, listenCheck)
		_, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			r.ring()
			continue
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return true, err
		}
		check, cancel := context.WithTimeout(ctx, listenCheck)
		_, err = conn.Exec(check, listen) // repeating it is harmless
		cancel()
		if err != nil {
			return true, err
		}
	}
}

// ring wakes the relay.
func (r *Relay) ring() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
