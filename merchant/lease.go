package merchant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"countersign"
)

// leaseMargin is how much longer a lease is than the work under it.
const leaseMargin = 5 * time.Second

// leaseRenewals is how often a lease is renewed within its length, so that it
// survives a renewal that fails.
const leaseRenewals = 3

// renewLease keeps the lease of c until end is called, if the Inbox is a Renewer. end returns when no renewal is
// running.
func (h *Handler) renewLease(key entryKey, c Claimed) (end func()) {
	inbox, ok := h.c.Inbox.(Renewer)
	if !ok || key.typ == countersign.TypeRequestWithdraw {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		turn := time.NewTicker(h.lease / leaseRenewals)
		defer turn.Stop()
		for {
			select {
			case <-turn.C:
			case <-ctx.Done():
				return
			}
			err := h.renew(ctx, inbox, Renewal{Type: key.typ, ID: key.id, Order: key.order, Claim: c.Claim, At: h.c.Now(),
				Lease: h.lease})
			if ctx.Err() != nil {
				return
			}
			attrs := []slog.Attr{slog.Int("type", int(key.typ)), slog.String("id", clip(key.id)), slog.Int64("seq", c.Seq)}
			switch {
			case errors.Is(err, ErrNotClaimed):
				h.c.Log.LogAttrs(ctx, slog.LevelError,
					"the lease was lost while the function runs: another process may run it too", attrs...)
				return
			case err != nil:
				h.c.Log.LogAttrs(ctx, slog.LevelError, "renewing the lease failed",
					append(attrs, slog.String("error", err.Error()))...)
			default:
				h.c.Log.LogAttrs(ctx, slog.LevelWarn, "the function still runs; its lease was renewed", attrs...)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// renew turns a panic of the Inbox into an error.
func (h *Handler) renew(ctx context.Context, inbox Renewer, r Renewal) (err error) {
	ctx, cancel := context.WithTimeout(ctx, h.c.Timeout)
	defer cancel()
	defer recovered(&err)
	return inbox.Renew(ctx, r)
}

// claim and settleInbox turn a panic of the Inbox into an error.
func (h *Handler) claim(ctx context.Context, e Entry) (c Claimed, err error) {
	defer recovered(&err)
	return h.c.Inbox.Claim(ctx, e)
}

func (h *Handler) settleInbox(ctx context.Context, s Settlement) (o Reply, err error) {
	defer recovered(&err)
	return h.c.Inbox.Settle(ctx, s)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("inbox: panic: %v\n%s", p, debug.Stack())
	}
}

// While another process works on the same callback, the Inbox is asked again after
// pauses that double from the first of these to the second.
const (
	pauseFirst = 2 * time.Millisecond
	pauseMost  = 250 * time.Millisecond
)

// pause waits for another delivery of the same callback: until it is done if it
// runs in this process, otherwise for d. It returns false if ctx ends.
func (h *Handler) pause(ctx context.Context, key entryKey, d time.Duration) bool {
	h.mu.Lock()
	running := h.calls[key]
	h.mu.Unlock()
	if running != nil {
		select {
		case <-running.done:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return sleep(ctx, d)
}

// maxUnkept bounds Handler.unkept.
const maxUnkept = 10_000
