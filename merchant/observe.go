package merchant

import (
	"context"
	"log/slog"
	"time"

	"countersign"
)

// Reason says how a request ended. The list is fixed: reasons are labels of metrics
// and values in the log, and hold nothing that a peer wrote.
type Reason string

// Reasons of requests that were no callback.
const (
	ReasonMethod       Reason = "method"        // 405
	ReasonAPIKey       Reason = "api_key"       // 401
	ReasonTooLarge     Reason = "too_large"     // 413
	ReasonBodySlow     Reason = "body_slow"     // 408: not complete within BodyTimeout
	ReasonBodyCut      Reason = "body_cut"      // the peer went away
	ReasonBodyConsumed Reason = "body_consumed" // something before the handler read the body
	ReasonOverload     Reason = "overload"      // 503: too many requests wait to be opened
	ReasonNotOpened    Reason = "not_opened"    // 1001
	ReasonMalformed    Reason = "malformed"     // 1002
)

// Reasons of callbacks that were read and not acted on.
const (
	ReasonUnknownType   Reason = "unknown_type"   // 1003
	ReasonWrongURL      Reason = "wrong_url"      // 1004
	ReasonNotBound      Reason = "not_bound"      // no binding where it is required
	ReasonBindingBroken Reason = "binding_broken" // bound, but not to these bytes
	ReasonSpliced       Reason = "spliced"        // a known first block with another rest
	ReasonOtherContent  Reason = "other_content"  // a known identifier with other content
	ReasonDetailsChange Reason = "details_change" // the merchant's function contradicts its earlier answer
	ReasonOtherUser     Reason = "other_user"     // the merchant's function confirmed another user's order
	ReasonUnanswerable  Reason = "unanswerable"   // no answer to it fits into a response
)

// Reasons of callbacks that were acted on.
const (
	ReasonAccepted          Reason = "accepted"           // deposit or notice, first time
	ReasonPossibleDuplicate Reason = "possible_duplicate" // accepted and kept apart
	ReasonConfirmed         Reason = "confirmed"          // withdrawal
	ReasonRefused           Reason = "refused"
	ReasonHold              Reason = "hold"
	ReasonRepeated          Reason = "repeated" // answered as before, without effect
	ReasonBusy              Reason = "busy"     // another delivery was being processed all the time
	ReasonTimeout           Reason = "timeout"  // the merchant's function took too long
	ReasonPanic             Reason = "panic"    // it panicked
	ReasonFailed            Reason = "failed"   // it returned an error
	ReasonInbox             Reason = "inbox"    // the Inbox failed
	ReasonSeal              Reason = "seal"     // the answer could not be sealed
)

// Reasons lists every Reason, for tables and metrics.
var Reasons = []Reason{
	ReasonMethod, ReasonAPIKey, ReasonTooLarge, ReasonBodySlow, ReasonBodyCut, ReasonBodyConsumed, ReasonOverload, ReasonNotOpened,
	ReasonMalformed,
	ReasonUnknownType, ReasonWrongURL, ReasonNotBound, ReasonBindingBroken, ReasonSpliced, ReasonOtherContent,
	ReasonDetailsChange, ReasonOtherUser, ReasonUnanswerable,
	ReasonAccepted, ReasonPossibleDuplicate, ReasonConfirmed, ReasonRefused, ReasonHold, ReasonRepeated, ReasonBusy,
	ReasonTimeout, ReasonPanic, ReasonFailed, ReasonInbox, ReasonSeal,
}

// level is the log level of r. Errors need a person: attempts to move money with a
// contradiction, and failures of the merchant's own side.
func (r Reason) level() slog.Level {
	switch r {
	case ReasonAccepted, ReasonConfirmed, ReasonHold, ReasonRepeated, ReasonRefused:
		return slog.LevelInfo
	case ReasonSpliced, ReasonBindingBroken, ReasonOtherContent, ReasonDetailsChange, ReasonOtherUser, ReasonPanic, ReasonInbox,
		ReasonBodyConsumed, ReasonSeal:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// Observation is how one request ended.
type Observation struct {
	Type     countersign.Type    // 0 if no callback was read
	ID       string              // trackingId, for type 2 callBackId; may be empty. The peer chose it, so it is no label
	Status   int                 // HTTP status
	Code     countersign.ErrCode // of the response; 0 if there was none
	Reason   Reason
	Duration time.Duration // from the start of the request to the end of the response
}

// Observer counts requests. Observe is called once for each, after its
// response was written, from many goroutines at once, and must not block.
type Observer interface {
	Observe(Observation)
}

// maxLoggedNames bounds how many names of unknown members are logged.
const maxLoggedNames = 8

// record logs one line for a request and counts it. Of the values that a peer
// chose it logs only identifiers.
func (h *Handler) record(ctx context.Context, began time.Time, r reply) {
	took := time.Since(began)
	if h.c.Observer != nil {
		o := Observation{Type: r.typ, Status: r.status, Code: r.Code, Reason: r.reason, Duration: took}
		if r.callback != nil {
			o.ID = r.callback.EventID()
		}
		h.c.Observer.Observe(o)
	}
	level := r.reason.level()
	if !h.c.Log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.Int("status", r.status), slog.String("reason", string(r.reason)),
		slog.Int64("ms", took.Milliseconds()))
	if r.hasResponse() {
		attrs = append(attrs, slog.Int64("errCode", int64(r.Code)))
	}
	if r.typ != countersign.TypeUnknown {
		attrs = append(attrs, slog.Int("type", int(r.typ)))
	}
	if cb := r.callback; cb != nil {
		attrs = append(attrs, slog.String("id", clip(cb.EventID())), slog.String("requestUUID", clip(cb.UUID())))
		if r.seq != 0 {
			attrs = append(attrs, slog.Int64("seq", r.seq))
		}
		if b := cb.Common().Business; b != 0 {
			attrs = append(attrs, slog.Int64("business", b))
		}
		if names := unknownNames(cb); len(names) > 0 {
			attrs = append(attrs, slog.Any("unknownMembers", names))
		}
	}
	if r.cause != nil {
		attrs = append(attrs, slog.String("cause", r.cause.Error()))
	}
	h.c.Log.LogAttrs(ctx, level, "callback", attrs...)
}

// clip bounds how much a peer can write into the log with one request.
func clip(s string) string {
	const most = 128
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func unknownNames(cb countersign.Callback) []string {
	var names []string
	for i, m := range cb.Unknown() {
		if i == maxLoggedNames {
			return append(names, "…")
		}
		names = append(names, clip(m.Name))
	}
	return names
}
