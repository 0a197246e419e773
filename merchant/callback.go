package merchant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/web"
)

// A request is admitted, opened, claimed in the Inbox (work), decided by the merchant's function (run), settled in the
// Inbox, and answered. link.go verifies its signature, verify.go checks deposits, and refused.go records what is
// refused.

func (h *Handler) serve(at countersign.Lane, w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	rep, link := h.admit(at, w, r)
	h.answer(w, link, &rep)
	h.record(r, began, rep)
}

// admit does the checks in order: first those that cost least and stop strangers.
func (h *Handler) admit(at countersign.Lane, w http.ResponseWriter, r *http.Request) (reply, *linked) {
	// The deadline comes first, because net/http reads the rest of a body that
	// the handler leaves, and a slow body would keep the connection.
	connection := http.NewResponseController(w)
	deadline := connection.SetReadDeadline(time.Now().Add(h.c.BodyTimeout)) == nil
	if r.Method != http.MethodPost {
		return reply{status: http.StatusMethodNotAllowed, reason: ReasonMethod}, nil
	}
	if !h.knowsAPIKey(r.Header.Values(h.c.Profile.Header)) {
		return reply{status: http.StatusUnauthorized, reason: ReasonAPIKey}, nil
	}
	read, refused := h.readBody(r, deadline)
	defer read.Free()
	body := read.Bytes
	if refused != nil {
		return *refused, nil
	}
	if deadline {
		// A deadline that is left would end the request's context later.
		if err := connection.SetReadDeadline(time.Time{}); err != nil {
			return *refuse(http.StatusBadRequest, countersign.CodeCannotOpen, wordCut, ReasonBodyCut, err), nil
		}
	}
	link, refused := h.verifyLink(r, body)
	if how := web.Encoding(r.Header); how != "" && refused == nil {
		refused = cannotOpen(fmt.Errorf("%w: the header Content-Encoding says %s: %s", envelope.ErrBodyForm, how,
			web.NotCompressed))
	}
	if refused != nil {
		h.keepRefused(r.Context(), body, nil, link, refused)
		return *refused, link
	}
	leave, err := h.opening.enter(r.Context(), len(body))
	if err != nil {
		return *overloaded(err), link
	}
	rep, opened := h.take(r.Context(), at, body, link, leave)
	h.keepRefused(r.Context(), body, opened, link, &rep)
	return rep, link
}

// take opens a body and acts on it or refuses it. opened is the plaintext, nil if body did not open.
func (h *Handler) take(ctx context.Context, at countersign.Lane, body []byte, link *linked,
	leave func()) (rep reply, opened []byte) {
	cb, blocks, opened, key, refused := h.open(at, body, leave)
	if refused == nil {
		refused = h.linkHolds(link, cb, opened)
	}
	if blocks != nil {
		blocks.ByPerson = link == nil
	}
	if refused != nil {
		h.remember(ctx, blocks)
		refused.callback = cb
		if cb != nil {
			refused.typ = cb.CallbackType()
		}
		return *refused, opened
	}
	work := func() reply { return h.work(ctx, cb, key, blocks) }
	rep = h.witnessed(ctx, body, opened, link, h.held(ctx, work(), work))
	return rep, opened
}

// open opens body with the first key that opens it, and returns the key that seals the
// answer. It calls leave when body is opened, or panics.
//
// With a wrong private part the padding may happen to fit, and the body opens to nonsense. That counts as not opened:
// the next key is tried in both cases, so the time reveals no more than the response (PROTOCOL.md, S7).
func (h *Handler) open(at countersign.Lane, body []byte,
	leave func()) (cb countersign.Callback, blocks *Blocks, plaintext []byte, answer *envelope.Key, refused *reply) {
	defer leave()
	for _, o := range h.openers {
		cb, blocks, plaintext, r := o.open(at, body)
		if r == nil || r.reason != ReasonNotOpened {
			return cb, blocks, plaintext, o.answer, r
		}
		if refused == nil || refused.request == nil {
			refused = r
		}
	}
	return nil, nil, refused.request, nil, refused
}

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
	if do != nil && inbox == nil || h.proves(rep.typ) {
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
		if rep, done = h.workOnce(ctx, inbox, rep, entry, e, do); done {
			if h.proves(rep.typ) && rep.Code == countersign.CodeAccepted {
				h.proofs.forget(entry)
			}
			return rep
		}
		if !h.pause(ctx, entry, pause) {
			return rep.end(verdict{Reply: Reply{Code: countersign.CodeInternal, Message: wordBusy}, reason: ReasonBusy})
		}
	}
}

// workOnce claims e and acts on it. Without a lease inbox acts, unless it is nil. done is false if another delivery acts.
func (h *Handler) workOnce(ctx context.Context, inbox Transactor, rep reply, key entryKey, e Entry,
	do function) (_ reply, done bool) {
	if inbox != nil && e.Lease == 0 {
		return h.workWithin(ctx, inbox, rep, key, e)
	}
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
	case c.State == StateClaimed && e.Lease > 0 && h.proves(rep.typ):
		if v := h.prove(ctx, key, &e, c); v.reason != "" {
			return h.sealed(rep.end(h.settle(ctx, key, c, v))), true
		}
		if inbox != nil || do == nil {
			e.Lease = 0 // it takes effect, though its lease has not ended
			return h.workOnce(ctx, inbox, rep, key, e, do)
		}
		fallthrough
	case c.State == StateClaimed, confirmed:
		v, ran := h.run(ctx, key, c, do)
		if !ran {
			return rep, false
		}
		return h.sealed(rep.end(v)), true
	case c.State == StateBusy:
		if h.settleUnkept(ctx, key) {
			return h.workOnce(ctx, inbox, rep, key, e, do)
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

// witnessed calls OnAnswer with an answer that confirms or refuses, before it is sent. If OnAnswer
// fails, the service gets errCode 5000 in its place.
func (h *Handler) witnessed(ctx context.Context, request, opened []byte, link *linked, r reply) reply {
	w, ok := r.callback.(*countersign.WithdrawalRequest)
	if !ok || h.c.OnAnswer == nil || r.Code != countersign.CodeAccepted && r.Code.Class() != countersign.ClassRefused {
		return r
	}
	// The record is made even if the service closes the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.Timeout)
	defer cancel()
	kept, err := h.kept(link, r)
	if err == nil {
		err = h.c.OnAnswer(ctx, Exchange{Question: *w, Request: request, RequestOpened: opened,
			Code: h.c.Profile.code(r.Code), Message: r.Message, Data: r.data, DataOpened: r.plaintext, Link: kept})
	}
	if err != nil {
		r.data = ""
		if link != nil {
			link.response = nil
		}
		return r.end(failed(ReasonInbox, err))
	}
	return r
}

// answer sends r with the provider's codes. If r cannot be sent, answer sends a
// failure. It changes r to what was sent.
func (h *Handler) answer(w http.ResponseWriter, link *linked, r *reply) {
	header := w.Header()
	r.Code = h.c.Profile.code(r.Code)
	switch r.status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", http.MethodPost)
		plain(w, r.status, "only POST")
		return
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `ApiKey realm="callbacks"`)
		plain(w, r.status, "wrong "+h.c.Profile.Header)
		return
	}
	switch r.reason {
	case ReasonTooLarge, ReasonBodySlow, ReasonBodyCut, ReasonBodyConsumed:
		header.Set("Connection", "close") // the rest of the body is not read
	}
	if r.reason == ReasonOverload {
		header.Set("Retry-After", retryAfter)
	}
	body, err := h.body(r)
	if err != nil {
		r.cause = errors.Join(r.cause, err)
		r.Reply, r.data, r.reason = failure, "", ReasonSeal
		r.Code = h.c.Profile.code(r.Code)
		body, err = h.body(r)
	}
	if err != nil { // an APIKey that is not UTF-8
		r.status, r.cause = http.StatusInternalServerError, errors.Join(r.cause, err)
		plain(w, r.status, "no response")
		return
	}
	signed := http.Header(nil)
	if link != nil {
		signed = link.response
	}
	if signed == nil || r.reason == ReasonSeal {
		if signed, err = h.signResponse(link, body, r); err != nil {
			r.cause = errors.Join(r.cause, err) // a service that demands it asks again
		}
	}
	maps.Copy(header, signed)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(r.status)
	_, _ = w.Write(body) // a failed write has no remedy; the service asks again
}

func plain(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Connection", "close")
	http.Error(w, word, status)
}

// Retried is how Retry ended.
type Retried struct {
	Callback countersign.Callback // nil if none was read
	Reason   Reason
	Code     countersign.ErrCode
	Seq      int64 // number in the Inbox; 0 if there is none
	Facts    []Fact
	Cause    error // may be nil
}

// Retry takes the body of a request that was refused as if it came now, without its API key and whatever path it came
// to. signed is Refused.Signed: a handler that demands signatures takes a request only if it is true. A callback that
// was taken meanwhile is ReasonRepeated, so nothing takes effect twice. A question about a withdrawal is
// ReasonWrongURL: nobody would get its answer. A deposit that is refused for its blocks is suspect, so a person decides
// once more. OnRefused is not called.
func (h *Handler) Retry(ctx context.Context, body []byte, signed bool) Retried {
	if h.c.ServiceSigner != nil && !signed {
		return Retried{Reason: ReasonUnsigned, Code: countersign.CodeMalformed,
			Cause: errors.New("the service did not sign it, so nobody knows who sent it")}
	}
	leave, err := h.opening.enter(ctx, len(body))
	if err != nil {
		return Retried{Reason: ReasonOverload, Code: countersign.CodeInternal, Cause: err}
	}
	rep, opened := h.take(ctx, countersign.LaneNotify, body, nil, leave)
	return Retried{Callback: rep.callback, Reason: rep.reason, Code: rep.Code, Seq: rep.seq, Facts: rep.facts(opened),
		Cause: rep.cause}
}
