package merchant

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"countersign"
	"countersign/envelope"
)

// Reason says how a request ended. The list is fixed: reasons are labels of metrics
// and values in the log, and hold nothing that a peer wrote.
type Reason string

// Reasons of requests that were no callback.
const (
	ReasonPath             Reason = "path"              // 404
	ReasonMethod           Reason = "method"            // 405
	ReasonAPIKey           Reason = "api_key"           // 401
	ReasonTooLarge         Reason = "too_large"         // 413
	ReasonBodySlow         Reason = "body_slow"         // 408: not complete within BodyTimeout
	ReasonBodyCut          Reason = "body_cut"          // the peer went away
	ReasonBodyConsumed     Reason = "body_consumed"     // something before the handler read the body
	ReasonOverload         Reason = "overload"          // 503: too many requests wait to be opened
	ReasonNotOpened        Reason = "not_opened"        // 1001
	ReasonUnsigned         Reason = "unsigned"          // no signature of the service, where it is demanded
	ReasonSignatureInvalid Reason = "signature_invalid" // its signature is wrong
	ReasonSignatureOld     Reason = "signature_old"     // it was signed too long ago
	ReasonMalformed        Reason = "malformed"         // 1002
)

// Reasons of callbacks that were read and not acted on.
const (
	ReasonUnknownType   Reason = "unknown_type"   // 1003
	ReasonWrongURL      Reason = "wrong_url"      // 1004
	ReasonNotBound      Reason = "not_bound"      // no binding where it is required
	ReasonBindingBroken Reason = "binding_broken" // bound, but not to these bytes
	ReasonSpliced       Reason = "spliced"        // it has blocks of another request
	ReasonOtherContent  Reason = "other_content"  // a known identifier with other content
	ReasonDetailsChange Reason = "details_change" // the merchant's function contradicts its earlier answer
	ReasonOtherUser     Reason = "other_user"     // the merchant's function confirmed another user's order
	ReasonUnanswerable  Reason = "unanswerable"   // no answer to it fits into a response
	ReasonDisproved     Reason = "disproved"      // Verify says that there is no such deposit
	ReasonUnverified    Reason = "unverified"     // Verify did not say yes within VerifyFor
)

// Reasons of callbacks that were acted on.
const (
	ReasonAccepted          Reason = "accepted"           // deposit or notice, first time
	ReasonPossibleDuplicate Reason = "possible_duplicate" // accepted, and recorded as a possible duplicate
	ReasonSuspect           Reason = "suspect"            // likewise: it may be joined from several
	ReasonConfirmed         Reason = "confirmed"          // withdrawal
	ReasonRefused           Reason = "refused"
	ReasonHold              Reason = "hold"
	ReasonRepeated          Reason = "repeated"    // answered as before, without effect
	ReasonEndedAgain        Reason = "ended_again" // a withdrawal that was confirmed and has ended is refused from now on
	ReasonBusy              Reason = "busy"        // another delivery was being processed all the time
	ReasonTimeout           Reason = "timeout"     // the merchant's function took too long
	ReasonPanic             Reason = "panic"       // it panicked
	ReasonFailed            Reason = "failed"      // it returned an error
	ReasonInbox             Reason = "inbox"       // the Inbox failed
	ReasonSeal              Reason = "seal"        // the answer could not be sealed
)

// Reasons lists every Reason, for tables and metrics: first those for which Refusal holds.
var Reasons = []Reason{
	ReasonPath, ReasonMethod, ReasonAPIKey, ReasonTooLarge, ReasonBodySlow, ReasonBodyCut, ReasonBodyConsumed,
	ReasonOverload, ReasonNotOpened,
	ReasonMalformed, ReasonUnsigned, ReasonSignatureInvalid, ReasonSignatureOld,
	ReasonUnknownType, ReasonWrongURL, ReasonNotBound, ReasonBindingBroken, ReasonSpliced, ReasonOtherContent,
	ReasonDetailsChange, ReasonOtherUser, ReasonUnanswerable, ReasonDisproved, ReasonUnverified,
	ReasonAccepted, ReasonPossibleDuplicate, ReasonSuspect, ReasonConfirmed, ReasonRefused, ReasonHold, ReasonRepeated,
	ReasonEndedAgain, ReasonBusy,
	ReasonTimeout, ReasonPanic, ReasonFailed, ReasonInbox, ReasonSeal,
}

// Refusal reports whether r is the reason of a request that was no callback, or of a
// callback that was not acted on.
func (r Reason) Refusal() bool {
	return slices.Contains(Reasons[:slices.Index(Reasons, ReasonAccepted)], r)
}

// Answered reports whether r is the reason of a callback that the merchant's end
// answered as it should, also with a refusal or a hold.
func (r Reason) Answered() bool {
	switch r {
	case ReasonAccepted, ReasonPossibleDuplicate, ReasonSuspect, ReasonConfirmed, ReasonRefused, ReasonHold,
		ReasonRepeated, ReasonEndedAgain:
		return true
	}
	return false
}

// level returns the log level of r. Deposits, notices and repetitions are not shown by default, because there are many.
// Errors need a person: requests that contradict an earlier one, and failures at the merchant's end.
func (r Reason) level() slog.Level {
	switch r {
	case ReasonAccepted, ReasonRepeated:
		return slog.LevelDebug
	case ReasonConfirmed, ReasonHold, ReasonRefused:
		return slog.LevelInfo
	case ReasonSpliced, ReasonBindingBroken, ReasonSignatureInvalid, ReasonOtherContent, ReasonDetailsChange,
		ReasonOtherUser, ReasonPanic, ReasonInbox,
		ReasonBodyConsumed, ReasonSeal, ReasonSuspect, ReasonEndedAgain, ReasonDisproved, ReasonUnverified:
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

// record logs one line for a request and counts it. Of the values that a peer chose it logs only identifiers and, if
// the request was refused, its method and path.
func (h *Handler) record(req *http.Request, began time.Time, r reply) {
	ctx, took := req.Context(), time.Since(began)
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
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.Int("status", r.status), slog.String("reason", string(r.reason)),
		slog.Int64("ms", took.Milliseconds()))
	if r.hasResponse() {
		attrs = append(attrs, slog.Int64("errCode", int64(r.Code)))
	}
	if r.typ != countersign.TypeUnknown {
		attrs = append(attrs, slog.Int("type", int(r.typ)))
	}
	if r.reason.Refusal() || r.reason == ReasonHold {
		logged, more := h.floods.log(r.flood(), began)
		if !logged {
			return
		}
		if more > 0 {
			attrs = append(attrs, slog.Int("notLogged", more))
		}
	}
	id := r.identity()
	if trace := countersign.TraceID(id.CallBackID, id.TrackingID); trace != "" {
		attrs = append(attrs, slog.String("trace", trace))
	}
	if r.reason.Refusal() {
		attrs = append(attrs, slog.String("method", clip(req.Method)), slog.String("path", clip(req.URL.Path)),
			slog.String("remote", req.RemoteAddr))
		if id.TrackingID != "" {
			attrs = append(attrs, slog.String("trackingId", clip(id.TrackingID)))
		}
		if setting := r.setting(); setting != "" {
			attrs = append(attrs, slog.String("setting", setting))
		}
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
		attrs = append(attrs, slog.String("error", r.cause.Error()))
	}
	h.c.Log.LogAttrs(ctx, level, "callback", attrs...)
}

// identity returns as much of the identity of r's callback as could be read.
func (r reply) identity() countersign.Identity {
	if cb := r.callback; cb != nil {
		return countersign.Identity{Type: cb.CallbackType(), TrackingID: cb.Common().TrackingID, CallBackID: cb.OrderID()}
	}
	return countersign.Identify(r.request)
}

// setting returns the gateway's flag and the member of Config that would let a refused request through. It returns ""
// if none would, and for what may be an attack, so that no log line tells anybody to switch off the defence.
func (r reply) setting() string {
	switch r.reason {
	case ReasonPath, ReasonWrongURL:
		return "--notify-path, --withdraw-path (NotifyPath, WithdrawPath)"
	case ReasonAPIKey:
		return "--callback-api-key, --api-key-header (CallbackAPIKeys, Profile.Header)"
	case ReasonNotBound:
		return "--provider other, or --binding seen (Profile.Binding)"
	case ReasonNotOpened, ReasonMalformed: // a private part has one reason for both
		switch {
		case r.request != nil && countersign.Faults(r.request, countersign.ParseOptions{Lenient: true}) == nil:
			return "--provider other, or --lenient (Profile.Lenient)"
		case r.request != nil:
			return ""
		case errors.Is(r.cause, envelope.ErrBodyField):
			return "--body-field (Profile.BodyField)"
		case formAtFault(r.cause):
			return ""
		}
		return "--service-key, --oaep (Key, Padding)"
	}
	return ""
}

// flood returns the kind under which log lines of r are limited. A provider asks about each held callback again, so
// these are a kind of their own.
func (r reply) flood() string {
	if r.reason == ReasonHold && r.callback != nil {
		return string(r.reason) + " " + r.callback.EventID()
	}
	return string(r.reason)
}

// floods bounds the log lines about refused and repeated requests: what anybody may send again
// and again must neither fill a disk nor hide the callbacks. The metrics count them all.
type floods struct {
	mu    sync.Mutex
	began time.Time // of the present span
	lines map[string]*flood
}

type flood struct{ logged, skipped int }

// In each span of this length, this many lines of a kind are written. The first line of the kind after it says how many
// were left out.
const (
	floodSpan  = time.Minute
	floodMost  = 10
	floodKinds = 1000
)

// log reports whether a line of a kind is written at now, and how many before it were not.
func (f *floods) log(kind string, now time.Time) (logged bool, skipped int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.began) >= floodSpan || f.lines == nil {
		rest := map[string]*flood{}
		for k, l := range f.lines {
			if l.skipped > 0 && len(rest) < floodKinds/2 {
				rest[k] = &flood{skipped: l.skipped}
			}
		}
		f.began, f.lines = now, rest
	}
	l := f.lines[kind]
	switch {
	case l == nil && len(f.lines) >= floodKinds:
		return false, 0
	case l == nil:
		l = &flood{}
		f.lines[kind] = l
	case l.logged == floodMost:
		l.skipped++
		return false, 0
	}
	l.logged++
	skipped, l.skipped = l.skipped, 0
	return true, skipped
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
