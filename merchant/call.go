package merchant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// While another process works on the same callback, the Inbox is asked again after
// pauses that double from the first of these to the second.
const (
	pauseFirst = 2 * time.Millisecond
	pauseMost  = 250 * time.Millisecond
)

// maxUnkept bounds Handler.unkept.
const maxUnkept = 10_000

// call is one run of a merchant's function, from its claim to its settlement.
type call struct {
	returned chan struct{} // closed when the function has ended
	done     chan struct{} // closed when its claim is settled
	verdict  verdict       // read it after done is closed
}

// startCall notes that c runs, unless another call for key does. It also returns the
// settlement for key that the Inbox failed to record.
func (h *Handler) startCall(key entryKey) (c *call, unkept Settlement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[key] != nil {
		return nil, Settlement{}
	}
	c = &call{returned: make(chan struct{}), done: make(chan struct{})}
	h.calls[key] = c
	return c, h.unkept[key]
}

// runCall runs in its own goroutine, so that a function that ignores its context blocks no
// request. settle records its result, also one that comes too late for its delivery.
func (h *Handler) runCall(ctx context.Context, c *call, key entryKey, do func() verdict, settle func(verdict) verdict) {
	v := failed(ReasonPanic, errors.New("the function ended its goroutine"))
	defer func() { // deferred, because runtime.Goexit runs only deferred calls
		if p := recover(); p != nil {
			v = failed(ReasonPanic, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
		if ctx.Err() != nil {
			h.c.Log.LogAttrs(ctx, slog.LevelWarn, "the function returned after its time-out",
				slog.Int("type", int(key.typ)), slog.String("id", clip(key.id)), slog.String("reason", string(v.reason)))
		}
		close(c.returned)
		c.verdict = settle(v)
		h.mu.Lock()
		delete(h.calls, key)
		h.mu.Unlock()
		close(c.done)
	}()
	v = do()
}

// inTime reports whether end is closed before ctx ends, or at the same time.
func inTime(ctx context.Context, end <-chan struct{}) bool {
	select {
	case <-end:
		return true
	case <-ctx.Done():
	}
	select {
	case <-end:
		return true
	default:
		return false
	}
}

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
