package merchant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"countersign"
)

// While another process works on the same callback, the Inbox is asked again
// after pauses that double from the first to the longest of these.
const (
	pauseFirst = 2 * time.Millisecond
	pauseMost  = 250 * time.Millisecond
)

// maxUnkept bounds Handler.unkept.
const maxUnkept = 10_000

// function is the merchant's part of one callback.
type function func(context.Context, Claimed) verdict

// work brings a callback to its end: recorded, acted on, its outcome kept, its
// answer sealed, in that order.
func (h *Handler) work(requestCtx context.Context, cb countersign.Callback, blocks *Blocks) reply {
	rep := reply{status: http.StatusOK, typ: cb.CallbackType(), callback: cb}
	if rep.typ != countersign.TypeRequestWithdraw { // whose answer is not known yet
		// First of all, so that nothing is done that could never be told.
		var err error
		if rep.plaintext, err = h.plaintext(cb, countersign.Details{}); err != nil {
			return rep.end(verdict{
				Outcome: Outcome{Code: countersign.CodeMalformed, Message: wordAnswer}, reason: ReasonUnanswerable, cause: err,
			})
		}
	}
	e := NewEntry(cb)
	e.Blocks = blocks
	do := h.function(cb)
	if do != nil {
		e.Lease = h.lease
	}
	// A service that hangs up does not stop what has begun: the outcome is
	// kept and told next time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(requestCtx), h.c.Timeout)
	defer cancel()
	key := entryKey{cb.CallbackType(), e.ID}
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		e.At = h.c.Now()
		c, err := h.claim(ctx, e)
		if err != nil {
			return rep.end(failed(ReasonInbox, err))
		}
		rep.seq = c.Seq
		switch c.State {
		case StateTaken:
			v := accepted()
			if c.PossibleDuplicate {
				v.reason = ReasonPossibleDuplicate
			}
			return h.sealed(rep.end(v))
		case StateSettled:
			h.forget(key)
			return h.sealed(rep.end(verdict{Outcome: c.Outcome, reason: ReasonRepeated}))
		case StateOtherContent:
			return rep.end(verdict{
				Outcome: Outcome{Code: countersign.CodeDetailsDiffer, Message: countersign.CodeDetailsDiffer.Message()},
				reason:  ReasonOtherContent, cause: errors.New("known under this identifier with other content; nothing was changed"),
			})
		case StateSpliced:
			return rep.end(verdict{
				Outcome: Outcome{Code: countersign.CodeMalformed, Message: wordSpliced},
				reason:  ReasonSpliced, cause: errors.New("its first block came with another rest before"),
			})
		case StateClaimed:
			if v, ran := h.run(ctx, key, c, do); ran {
				return h.sealed(rep.end(v))
			}
		case StateBusy:
			if h.settleUnkept(ctx, key) {
				continue
			}
		default:
			return rep.end(failed(ReasonInbox, fmt.Errorf("inbox: state %q", c.State)))
		}
		if !h.pause(ctx, key, pause) {
			return rep.end(verdict{Outcome: Outcome{Code: countersign.CodeInternal, Message: wordBusy}, reason: ReasonBusy})
		}
	}
}

// end puts v into r.
func (r reply) end(v verdict) reply {
	r.Outcome, r.reason, r.cause = v.Outcome, v.reason, v.cause
	return r
}

// function is what the Config has for cb, nil where recording it is all.
func (h *Handler) function(cb countersign.Callback) function {
	switch c := cb.(type) {
	case *countersign.Deposit:
		if h.c.OnDeposit == nil && h.c.OnPossibleDuplicate == nil {
			return nil
		}
		return func(ctx context.Context, claimed Claimed) verdict {
			f, v := h.c.OnDeposit, accepted()
			if claimed.PossibleDuplicate {
				f, v.reason = h.c.OnPossibleDuplicate, ReasonPossibleDuplicate
			}
			if f == nil {
				return v
			}
			d := Deposit{Deposit: *c, Seq: claimed.Seq, PossibleDuplicate: claimed.PossibleDuplicate}
			if err := f(ctx, d); err != nil {
				return fromError(err, false)
			}
			return v
		}
	case *countersign.WithdrawalRequest:
		return func(ctx context.Context, _ Claimed) verdict {
			if h.c.OnWithdrawal == nil {
				return fromAnswer(Refuse(countersign.CodeUnknownOrder, ""))
			}
			a, err := h.c.OnWithdrawal(ctx, *c)
			if err != nil {
				return fromError(err, true)
			}
			v := fromAnswer(a)
			if v.Code == countersign.CodeAccepted {
				// Before it is kept: what is kept must be fit to be sent.
				if _, err := h.plaintext(c, v.Details); err != nil {
					return failed(ReasonUnanswerable, err)
				}
			}
			return v
		}
	}
	if h.c.OnNotice == nil {
		return nil
	}
	return func(ctx context.Context, _ Claimed) verdict {
		if err := h.c.OnNotice(ctx, cb); err != nil {
			return fromError(err, false)
		}
		return accepted()
	}
}

// flight is one run of a merchant's function, from its claim to its settling.
type flight struct {
	returned chan struct{} // closed when the function has ended
	done     chan struct{} // closed when its outcome is settled
	verdict  verdict       // to be read after done
}

// run calls do once and settles its verdict. ran is false where the function
// still runs for an earlier delivery, whose lease ended before it did.
func (h *Handler) run(ctx context.Context, key entryKey, c Claimed, do function) (v verdict, ran bool) {
	f := &flight{returned: make(chan struct{}), done: make(chan struct{})}
	h.mu.Lock()
	running := h.flights[key] != nil
	if !running {
		h.flights[key] = f
	}
	earlier, unkept := h.unkept[key]
	h.mu.Unlock()
	if running {
		h.settle(ctx, key, c, failed(ReasonBusy, nil))
		return verdict{}, false
	}
	if unkept && earlier.Final {
		do = func(context.Context, Claimed) verdict {
			return verdict{Outcome: earlier.Outcome, final: true, reason: ReasonRepeated}
		}
	}
	go h.fly(ctx, f, key, c, do)
	select {
	case <-f.returned:
	case <-ctx.Done():
		select {
		case <-f.returned: // both at once: it did return in time
		default:
			return failed(ReasonTimeout, errors.New("the function did not return in time and goes on alone")), true
		}
	}
	timer := time.NewTimer(h.c.Timeout)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.verdict, true
	case <-timer.C:
		return failed(ReasonInbox, errors.New("inbox: keeping the outcome takes too long")), true
	}
}

// fly runs in a goroutine of its own, so that a function that ignores its
// context holds up nobody. It settles also what comes too late for the
// delivery that began it.
func (h *Handler) fly(ctx context.Context, f *flight, key entryKey, c Claimed, do function) {
	v := failed(ReasonPanic, errors.New("the function ended its goroutine"))
	defer func() { // deferred, because runtime.Goexit runs nothing else
		if p := recover(); p != nil {
			v = failed(ReasonPanic, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
		if ctx.Err() != nil {
			h.c.Log.LogAttrs(ctx, slog.LevelWarn, "the function returned after its time-out",
				slog.Int("type", int(key.typ)), slog.String("id", clip(key.id)), slog.String("reason", string(v.reason)))
		}
		close(f.returned)
		f.verdict = h.settle(ctx, key, c, v)
		h.mu.Lock()
		delete(h.flights, key)
		h.mu.Unlock()
		close(f.done)
	}()
	v = do(ctx, c)
}

// settle keeps v or gives the lease back, and says what is to be told.
func (h *Handler) settle(ctx context.Context, key entryKey, c Claimed, v verdict) verdict {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
	defer cancel()
	s := Settlement{Type: key.typ, ID: key.id, Claim: c.Claim, Outcome: v.Outcome, Final: v.final, At: h.c.Now()}
	standing, err := h.settleInbox(ctx, s)
	if err != nil {
		// The function has done its part, and must not do it again because
		// of the Inbox; as long as this process lives, it will not.
		h.mu.Lock()
		if earlier, ok := h.unkept[key]; !earlier.Final && (ok || len(h.unkept) < maxUnkept) {
			h.unkept[key] = s
		}
		h.mu.Unlock()
		if v.final {
			return failed(ReasonInbox, err)
		}
		v.cause = errors.Join(v.cause, err) // nothing to keep, so it can be told
		return v
	}
	h.forget(key)
	switch {
	case standing.Same(v.Outcome):
		v.Outcome = standing
		return v
	case v.final:
		// Two processes asked the merchant's code at once and got two
		// answers. The first stands; this attempt gets neither.
		return verdict{
			Outcome: Outcome{Code: countersign.CodeDetailsDiffer, Message: countersign.CodeDetailsDiffer.Message()},
			reason:  ReasonDetailsChange,
			cause:   fmt.Errorf("the function now says errCode %d; errCode %d was kept before with other details", v.Code, standing.Code),
		}
	}
	return verdict{Outcome: standing, reason: ReasonRepeated}
}

// settleUnkept tries again to settle what the Inbox failed to. Until it
// succeeds the lease of that claim stands in the way of every delivery. It is
// false where there is nothing to settle or the Inbox still fails.
func (h *Handler) settleUnkept(ctx context.Context, key entryKey) bool {
	h.mu.Lock()
	s, unkept := h.unkept[key]
	h.mu.Unlock()
	if !unkept {
		return false
	}
	if _, err := h.settleInbox(ctx, s); err != nil {
		return false
	}
	h.forget(key)
	return true
}

func (h *Handler) forget(key entryKey) {
	h.mu.Lock()
	delete(h.unkept, key)
	h.mu.Unlock()
}

// pause waits for another delivery of the same callback: until it is done, if
// it runs in this process, and otherwise for d. It is false when time is over.
func (h *Handler) pause(ctx context.Context, key entryKey, d time.Duration) bool {
	h.mu.Lock()
	f := h.flights[key]
	h.mu.Unlock()
	if f != nil {
		select {
		case <-f.done:
			return true
		case <-ctx.Done():
			return false
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// claim and settleInbox make an error of an Inbox that panics.
func (h *Handler) claim(ctx context.Context, e Entry) (c Claimed, err error) {
	defer recovered(&err)
	return h.c.Inbox.Claim(ctx, e)
}

func (h *Handler) settleInbox(ctx context.Context, s Settlement) (o Outcome, err error) {
	defer recovered(&err)
	return h.c.Inbox.Settle(ctx, s)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("inbox: panic: %v\n%s", p, debug.Stack())
	}
}
