package merchant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/web"
)

// A request is admitted, opened, claimed in the Inbox, decided by the merchant's function, settled in the Inbox (work.go),
// and answered. link.go verifies its signature, verify.go checks deposits, and refused.go records what is refused.

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
