package daemon

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// tracing tells what the parts of a daemon did as spans. What names a callback is in
// them, and no amount, address, key or body.
type tracing struct{ *tracer }

// newTracing returns nil where no traces are asked for.
func newTracing(on bool, service string, log *slog.Logger) (*tracing, error) {
	if !on {
		return nil, nil
	}
	t, err := openTracer(service, log)
	if err != nil {
		return nil, err
	}
	return &tracing{t}, nil
}

// close sends what is left when everything else has ended.
func (t *tracing) close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	t.Close(ctx)
}

func names(merchant, callBackID, trackingID string) []traceAttribute {
	var list []traceAttribute
	for _, a := range [][2]string{{"countersign.merchant", merchant}, {"countersign.callBackId", callBackID}, {"countersign.trackingId", trackingID}} {
		if a[1] != "" {
			list = append(list, traceText(a[0], a[1]))
		}
	}
	return list
}

// Call is the Trace of an API.
func (t *tracing) Call(c api.Traced) {
	key := countersign.TraceID(c.CallBackID, c.TrackingID)
	if !t.Has(key) {
		return
	}
	t.Add(key, traceSpan{Name: c.Route, First: c.First, Began: c.Began, Ended: c.Ended,
		Attributes: names(c.Merchant, c.CallBackID, c.TrackingID)})
}

// Claimed implements dispatch.Tracer.
func (t *tracing) Claimed(list []outbox.Claimed, began, ended time.Time) {
	for i := range list {
		c := &list[i]
		key := countersign.TraceID(c.CallBackID, c.TrackingID)
		if !t.Has(key) {
			continue
		}
		t.Add(key, traceSpan{Name: "claim", Began: began, Ended: ended,
			Attributes: append(names(c.Merchant, c.CallBackID, c.TrackingID), traceText("countersign.callback", c.ID), traceInt("countersign.attempt", c.Attempts))})
	}
}

// Attempted implements dispatch.Tracer.
func (t *tracing) Attempted(a dispatch.Attempted) {
	c := &a.Callback
	key, id := countersign.TraceID(c.CallBackID, c.TrackingID), a.Attempt.RequestUUID
	if !t.Has(key) {
		return
	}
	if id == "" { // nothing was sealed
		id = c.ID + "/" + strconv.Itoa(c.Attempts)
	}
	failed := ""
	if a.Verdict.Result == client.AttemptRetry {
		failed = string(a.Verdict.Reason)
	}
	about := append(names(c.Merchant, c.CallBackID, c.TrackingID),
		traceText("countersign.callback", c.ID), traceInt("countersign.type", int(c.Type)), traceInt("countersign.attempt", a.Attempt.Number),
		traceText("countersign.requestUUID", a.Attempt.RequestUUID), traceText("countersign.node", a.Attempt.Node),
		traceText("countersign.result", string(a.Verdict.Result)), traceText("countersign.reason", string(a.Verdict.Reason)))
	if a.Attempt.HTTPStatus != 0 {
		about = append(about, traceInt("http.response.status_code", a.Attempt.HTTPStatus))
	}
	if a.Settled.Decision != countersign.DecisionNone {
		about = append(about, traceText("countersign.decision", string(a.Settled.Decision)))
	}
	t.Add(key, traceSpan{Name: "attempt", ID: id, Began: a.Began, Ended: a.Kept, Failed: failed, Attributes: about})
	t.steps(key, id, a.Began, step{"seal", a.Sealed}, step{"post", a.Posted}, step{"judge", a.Judged}, step{"", a.Settling}, step{"settle", a.Kept})
}

// step is a part of something, from the end of the part before.
type step struct {
	name  string // empty: it waits
	ended time.Time
}

func (t *tracing) steps(key, below string, began time.Time, steps ...step) {
	for _, s := range steps {
		if s.ended.IsZero() {
			continue
		}
		if s.name != "" {
			t.Add(key, traceSpan{Name: s.name, Below: below, Began: began, Ended: s.ended})
		}
		began = s.ended
	}
}

// Steps tells what the merchant's end did with a callback, below the attempt that it
// answered.
func (t *tracing) Steps(cb countersign.Callback, s merchant.Steps) {
	head, order := cb.Common(), cb.OrderID()
	key, id := countersign.TraceID(order, head.TrackingID), "merchant/"+cb.UUID()
	if !t.Has(key) {
		return
	}
	failed := ""
	if !s.Reason.Answered() {
		failed = string(s.Reason)
	}
	t.Add(key, traceSpan{Name: "receive", ID: id, Below: cb.UUID(), Began: s.Began, Ended: s.Answered, Failed: failed,
		Attributes: append(names("", order, head.TrackingID), traceInt("countersign.type", int(cb.CallbackType())),
			traceText("countersign.requestUUID", cb.UUID()), traceText("countersign.reason", string(s.Reason)))})
	t.steps(key, id, s.Began, step{"body", s.Received}, step{"open", s.Opened}, step{"record", s.Recorded}, step{"answer", s.Answered})
}
