package merchant

import (
	"context"
	"countersign"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// function is the merchant's part of one callback.
type function func(context.Context, Claimed) verdict

// function returns the merchant's function for cb, nil if cb is only recorded.
func (h *Handler) function(cb countersign.Callback) function {
	switch c := cb.(type) {
	case *countersign.Deposit:
		if h.c.OnDeposit == nil && h.c.OnPossibleDuplicate == nil {
			return nil
		}
		return func(ctx context.Context, claimed Claimed) verdict {
			f, v := h.c.OnDeposit, accepted()
			if v.doubt(claimed) {
				f = h.c.OnPossibleDuplicate
			}
			if f == nil {
				return v
			}
			if err := f(ctx, NewDeposit(c, claimed)); err != nil {
				return h.verdictOf(cb, Answer{}, err)
			}
			return v
		}
	case *countersign.WithdrawalRequest:
		return func(ctx context.Context, _ Claimed) verdict {
			if h.c.OnWithdrawal == nil {
				return fromAnswer(Refuse(countersign.CodeUnknownOrder, ""), c.TenantUserID)
			}
			a, err := h.c.OnWithdrawal(ctx, *c)
			return h.verdictOf(cb, a, err)
		}
	}
	if h.c.OnNotice == nil {
		return nil
	}
	return func(ctx context.Context, _ Claimed) verdict {
		return h.verdictOf(cb, Answer{}, h.c.OnNotice(ctx, cb))
	}
}

// verdictOf returns the verdict of a function for cb that returned a and err. a counts for withdrawals only.
func (h *Handler) verdictOf(cb countersign.Callback, a Answer, err error) verdict {
	w, withdrawal := cb.(*countersign.WithdrawalRequest)
	switch {
	case err != nil:
		return fromError(err, withdrawal)
	case !withdrawal:
		return accepted()
	}
	v := fromAnswer(a, w.TenantUserID)
	if v.Code == countersign.CodeAccepted {
		// Checked before it is recorded: what is recorded must fit into a response, with
		// the key of this attempt or of a later one.
		for _, o := range h.openers {
			if _, err := h.plaintext(o.answer, w, v.Reply); err != nil {
				return failed(ReasonUnanswerable, err)
			}
		}
	}
	return v
}

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
