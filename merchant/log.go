package merchant

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"countersign"
	"countersign/envelope"
)

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

// maxLoggedNames bounds how many names of unknown members are logged.
const maxLoggedNames = 8

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
