package merchant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"countersign"
	"countersign/envelope"
)

// work processes a callback: it is recorded, the merchant's function is called, the
// result is recorded, and the answer is sealed with key, in that order.
func (h *Handler) work(requestCtx context.Context, cb countersign.Callback, key *envelope.Key, blocks *Blocks) reply {
	rep := reply{status: http.StatusOK, key: key, typ: cb.CallbackType(), callback: cb}
	if rep.typ != countersign.TypeRequestWithdraw { // type 2 has no answer yet
		// This comes first, so that no effect happens that could not be answered.
		var err error
		if rep.plaintext, err = h.plaintext(key, cb, Reply{}); err != nil {
			return rep.end(verdict{
				Reply: Reply{Code: countersign.CodeMalformed, Message: wordAnswer}, reason: ReasonUnanswerable, cause: err,
			})
		}
	}
	e := NewEntry(cb)
	e.Blocks = blocks
	do, inbox := h.function(cb), h.transactor(rep.typ)
	if do != nil && inbox == nil {
		e.Lease = h.lease
	}
	// If the service closes the connection, the work goes on: the result is
	// recorded and the next attempt gets it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(requestCtx), h.c.Timeout)
	defer cancel()
	entry := entryKey{cb.CallbackType(), e.ID, e.Order}
	for pause := pauseFirst; ; pause = min(2*pause, pauseMost) {
		e.At = h.c.Now()
		var done bool
		switch {
		case rep.typ == countersign.TypeDeposited && h.c.Verify != nil:
			rep, done = h.workProven(ctx, inbox, rep, entry, e, do)
		case inbox != nil:
			rep, done = h.workWithin(ctx, inbox, rep, entry, e)
		default:
			rep, done = h.workOnce(ctx, rep, entry, e, do)
		}
		if done {
			return rep
		}
		if !h.pause(ctx, entry, pause) {
			return rep.end(verdict{Reply: Reply{Code: countersign.CodeInternal, Message: wordBusy}, reason: ReasonBusy})
		}
	}
}

// workOnce claims e and acts on it. done is false if another delivery acts.
func (h *Handler) workOnce(ctx context.Context, rep reply, key entryKey, e Entry, do function) (_ reply, done bool) {
	c, err := h.claim(ctx, e)
	if err != nil {
		return rep.end(failed(ReasonInbox, err)), true
	}
	rep.seq = c.Seq
	h.warnReplaced(ctx, key, c)
	confirmed := c.State == StateSettled && rep.typ == countersign.TypeRequestWithdraw &&
		c.Reply.Code == countersign.CodeAccepted
	switch {
	case c.State == StateTaken:
		v := accepted()
		v.doubt(c)
		return h.sealed(rep.end(v)), true
	case c.State == StateClaimed, confirmed:
		v, ran := h.run(ctx, key, c, do)
		if !ran {
			return rep, false
		}
		return h.sealed(rep.end(v)), true
	case c.State == StateBusy:
		if h.settleUnkept(ctx, key) {
			return h.workOnce(ctx, rep, key, e, do)
		}
		return rep, false
	}
	return h.standing(rep, key, c), true
}

// workWithin lets the Inbox act. done is false if another delivery acts.
func (h *Handler) workWithin(ctx context.Context, inbox Transactor, rep reply, key entryKey,
	e Entry) (_ reply, done bool) {
	a, ran := h.act(ctx, inbox, key, e)
	if !ran {
		return rep, false
	}
	rep.seq = a.claimed.Seq
	h.warnReplaced(ctx, key, a.claimed)
	switch a.claimed.State {
	case StateBusy:
		return rep, false
	case StateTaken:
		return h.sealed(rep.end(a.verdict)), true
	case StateOpen:
		return rep.end(a.verdict), true
	case StateNone:
		if a.verdict.reason != "" { // it failed
			return rep.end(a.verdict), true
		}
	}
	return h.standing(rep, key, a.claimed), true
}

// workProven is workOnce or workWithin for a deposit that Verify is asked about first. The deposit is claimed before,
// so that only one delivery asks and a repetition does not. No transaction is open meanwhile.
func (h *Handler) workProven(ctx context.Context, inbox Transactor, rep reply, key entryKey, e Entry,
	do function) (_ reply, done bool) {
	e.Lease = h.lease
	c, err := h.claim(ctx, e)
	if err != nil {
		return rep.end(failed(ReasonInbox, err)), true
	}
	rep.seq = c.Seq
	h.warnReplaced(ctx, key, c)
	switch c.State {
	case StateClaimed:
	case StateBusy:
		if h.settleUnkept(ctx, key) {
			return h.workProven(ctx, inbox, rep, key, e, do)
		}
		return rep, false
	default:
		return h.standing(rep, key, c), true
	}
	if v := h.prove(ctx, key, &e, c); v.reason != "" {
		return h.sealed(rep.end(h.settle(ctx, key, c, v))), true
	}
	switch {
	case inbox != nil:
		rep, done = h.workWithin(ctx, inbox, rep, key, e)
	case do != nil:
		var v verdict
		if v, done = h.run(ctx, key, c, do); done {
			rep = h.sealed(rep.end(v))
		}
	default:
		e.Lease = 0 // it takes effect, though its lease has not ended
		rep, done = h.workOnce(ctx, rep, key, e, nil)
	}
	if done && rep.Code == countersign.CodeAccepted {
		h.proofs.forget(key)
	}
	return rep, done
}

// standing answers a callback that this delivery does not act on, by the state that the
// Inbox returned.
func (h *Handler) standing(rep reply, key entryKey, c Claimed) reply {
	switch c.State {
	case StateSettled:
		h.forget(key)
		v := verdict{Reply: c.Reply, reason: ReasonRepeated}
		v.revoked(c.Revoked)
		return h.sealed(rep.end(v))
	case StateOtherContent:
		return rep.end(verdict{
			Reply:  Reply{Code: countersign.CodeDetailsDiffer, Message: wordOther},
			reason: ReasonOtherContent, cause: errors.New("this identifier is known with other content; nothing was changed"),
		})
	case StateSpliced:
		return rep.end(verdict{
			Reply:  Reply{Code: countersign.CodeMalformed, Message: wordSpliced},
			reason: ReasonSpliced, cause: errors.New("its blocks came in another request before"),
		})
	}
	return rep.end(failed(ReasonInbox, fmt.Errorf("inbox: state %q", c.State)))
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

// warnReplaced logs that a provider corrected what was never accepted, or that somebody tried.
func (h *Handler) warnReplaced(ctx context.Context, key entryKey, c Claimed) {
	if c.Replaced {
		h.c.Log.LogAttrs(ctx, slog.LevelWarn, "an identifier came with other content, which replaces what was never accepted",
			slog.Int("type", int(key.typ)), slog.String("id", clip(key.id)), slog.Int64("seq", c.Seq))
	}
}

// run calls do once and settles its verdict. ran is false if the function is still
// running for an earlier delivery, whose lease has ended.
func (h *Handler) run(ctx context.Context, key entryKey, c Claimed, do function) (v verdict, ran bool) {
	running, earlier := h.startCall(key)
	if running == nil {
		if c.State == StateClaimed {
			h.settle(ctx, key, c, failed(ReasonBusy, nil))
		}
		return verdict{}, false
	}
	switch {
	case earlier.Final:
		do = repeated(key.typ, earlier.Reply, do)
	case c.State == StateSettled:
		do = repeated(key.typ, c.Reply, do)
	}
	endRenewal := h.renewLease(key, c)
	go h.runCall(ctx, running, key, func() verdict { return do(ctx, c) }, func(v verdict) verdict {
		endRenewal() // before settling, which may free the lease
		return h.settle(ctx, key, c, v)
	})
	if !inTime(ctx, running.returned) {
		return failed(ReasonTimeout, errors.New("the function did not return in time and is still running")), true
	}
	timer := time.NewTimer(h.c.Timeout)
	defer timer.Stop()
	select {
	case <-running.done:
		return running.verdict, true
	case <-timer.C:
		return failed(ReasonInbox, errors.New("inbox: recording the result took too long")), true
	}
}

// repeated returns do for a callback that was answered with kept: nothing is done again. For a confirmed withdrawal do
// says whether that still holds, and kept what is confirmed (PROTOCOL.md, I1).
func repeated(typ countersign.Type, kept Reply, do function) function {
	return func(ctx context.Context, c Claimed) verdict {
		if typ == countersign.TypeRequestWithdraw && kept.Code == countersign.CodeAccepted {
			if v := do(ctx, c); v.Code != countersign.CodeAccepted {
				v.revoked(v.final)
				return v
			}
		}
		return verdict{Reply: kept, final: true, reason: ReasonRepeated}
	}
}

// settle records v or ends the lease, and returns the verdict to answer with.
func (h *Handler) settle(ctx context.Context, key entryKey, c Claimed, v verdict) verdict {
	if c.State == StateSettled && (v.Code == countersign.CodeAccepted || !v.final) {
		h.forget(key)
		return v // the recorded confirmation stays as it is
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
	defer cancel()
	s := Settlement{Type: key.typ, ID: key.id, Order: key.order, Claim: c.Claim, Reply: v.Reply, Final: v.final,
		At: h.c.Now()}
	standing, err := h.settleInbox(ctx, s)
	if err != nil {
		// The function has done its work and must not do it again because the
		// Inbox failed. As long as this process lives, it will not.
		h.mu.Lock()
		if earlier, ok := h.unkept[key]; !earlier.Final && (ok || len(h.unkept) < maxUnkept) {
			h.unkept[key] = s
		}
		h.mu.Unlock()
		if v.final {
			return failed(ReasonInbox, err)
		}
		v.cause = errors.Join(v.cause, err) // nothing to record, so the answer can be sent
		return v
	}
	h.forget(key)
	switch {
	case standing.Same(v.Reply):
		v.Reply = standing
		return v
	case key.typ == countersign.TypeRequestWithdraw && v.Code != countersign.CodeAccepted &&
		standing.Code == countersign.CodeAccepted:
		return v // whoever confirmed it before
	case key.typ == countersign.TypeRequestWithdraw && standing.Code != countersign.CodeAccepted:
		return verdict{Reply: standing, reason: ReasonRepeated}
	case v.final:
		// Two processes called the merchant's function at the same time and got
		// two answers. The first stands; this attempt gets neither.
		return verdict{
			Reply:  refusal(countersign.CodeDetailsDiffer),
			reason: ReasonDetailsChange,
			cause: fmt.Errorf("the function now says errCode %d; errCode %d was recorded before with other details", v.Code,
				standing.Code),
		}
	}
	return verdict{Reply: standing, reason: ReasonRepeated}
}

// maxUnkept bounds Handler.unkept.
const maxUnkept = 10_000

// settleUnkept tries again to record a settlement that the Inbox failed to record.
// Until that succeeds, the lease of the claim blocks every delivery. It returns false
// if there is no such settlement or the Inbox still fails.
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
