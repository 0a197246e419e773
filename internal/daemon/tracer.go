package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// TracesOn says whether traces are asked for: OTEL_EXPORTER_OTLP_ENDPOINT is set.
func TracesOn() bool { return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" }

const (
	traceQueue = 8192 // spans that wait; more are dropped
	traceBatch = 512
	traceEvery = 5 * time.Second // a batch that is not full waits no longer
)

// tracer sends spans in the background, in batches of OTLP in JSON; what a slow collector does not
// take in time is dropped.
//
// Nothing of a trace goes over the wire of the protocol. Both ends make the ids from what
// they know: the trace from the callBackId of a withdrawal or the trackingId of anything
// else, the span of an attempt from its requestUUID. So all that concerns one withdrawal
// or deposit is one trace, and what the merchant's end did hangs below the attempt that
// it answered.
type tracer struct {
	url     string
	headers http.Header
	client  *http.Client
	about   []traceAttribute // of this process
	below   uint64           // traces whose last eight bytes, halved, are below it are sent
	log     *slog.Logger

	spans   chan otlpSpan
	dropped atomic.Int64
	closing chan struct{}
	closed  chan struct{}
}

// openTracer makes a tracer. docs/operator.md has the variables that say where to and how.
func openTracer(service string, log *slog.Logger) (*tracer, error) {
	share, err := traceShare()
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if err != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is no http or https URL, such as http://127.0.0.1:4318")
	}
	t := &tracer{url: endpoint.JoinPath("/v1/traces").String(), headers: http.Header{}, log: log, below: uint64(share * (1 << 63)),
		spans: make(chan otlpSpan, traceQueue), closing: make(chan struct{}), closed: make(chan struct{})}
	headers, err := tracePairs("OTEL_EXPORTER_OTLP_HEADERS")
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		t.headers.Set(h[0], h[1])
	}
	own, err := tracePairs("OTEL_RESOURCE_ATTRIBUTES")
	if err != nil {
		return nil, err
	}
	for _, a := range append(own, [2]string{"service.name", service}, [2]string{"service.version", Version}) {
		t.about = append(t.about, traceText(a[0], a[1]))
	}
	t.client = &http.Client{Timeout: 10 * time.Second, Transport: http.DefaultTransport.(*http.Transport).Clone()}
	go t.run()
	return t, nil
}

// tracePairs reads NAME=VALUE,NAME=VALUE, percent-encoded.
func tracePairs(variable string) (list [][2]string, err error) {
	for pair := range strings.SplitSeq(os.Getenv(variable), ",") {
		name, value, found := strings.Cut(pair, "=")
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil {
			return nil, errors.New(variable + " is not NAME=VALUE,NAME=VALUE, percent-encoded")
		}
		list = append(list, [2]string{strings.TrimSpace(name), value})
	}
	return list, nil
}

// traceShare is the part of the traces that are sent, from 0 to 1.
func traceShare() (float64, error) {
	switch sampler := os.Getenv("OTEL_TRACES_SAMPLER"); strings.TrimPrefix(sampler, "parentbased_") {
	case "", "always_on":
		return 1, nil
	case "always_off":
		return 0, nil
	case "traceidratio":
		part, err := strconv.ParseFloat(os.Getenv("OTEL_TRACES_SAMPLER_ARG"), 64)
		if err != nil || !(part >= 0 && part <= 1) {
			return 0, errors.New("OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1")
		}
		return part, nil
	default:
		return 0, fmt.Errorf("OTEL_TRACES_SAMPLER %q is not known", sampler)
	}
}

// Close sends what is left, until ctx ends.
func (t *tracer) Close(ctx context.Context) {
	close(t.closing)
	select {
	case <-t.closed:
	case <-ctx.Done():
	}
}

// run sends batches until closing.
func (t *tracer) run() {
	defer close(t.closed)
	defer t.client.CloseIdleConnections()
	ticker := time.NewTicker(traceEvery)
	defer ticker.Stop()
	var batch []otlpSpan
	for {
		last := false
		select {
		case s := <-t.spans:
			if batch = append(batch, s); len(batch) < traceBatch {
				continue
			}
		case <-ticker.C:
		case <-t.closing:
			last = true
			for len(t.spans) > 0 {
				batch = append(batch, <-t.spans)
			}
		}
		if err := t.send(batch); err != nil {
			t.log.Warn("traces were not sent", "error", err.Error())
		}
		if n := t.dropped.Swap(0); n > 0 {
			t.log.Warn("traces were not sent", "error", fmt.Sprintf("%d spans were dropped: the collector is slow", n))
		}
		if batch = batch[:0]; last {
			return
		}
	}
}

func (t *tracer) send(batch []otlpSpan) error {
	if len(batch) == 0 {
		return nil
	}
	scope := map[string]any{"scope": map[string]string{"name": "countersign"}, "spans": batch}
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{
		map[string]any{"resource": map[string]any{"attributes": t.about}, "scopeSpans": []any{scope}}}})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = t.headers.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode/100 != 2 {
		return errors.New("the collector answered " + resp.Status)
	}
	return nil
}

// traceSpan is one thing that was done.
type traceSpan struct {
	Name       string
	ID         string // of this span, for its children; empty: it has none
	Below      string // the ID of its parent; empty: it is the first span of the trace
	First      bool   // it is the trace's first span
	Began      time.Time
	Ended      time.Time
	Failed     string // why; empty: it has not
	Attributes []traceAttribute
}

// traceAttribute and otlpSpan are written as OTLP has them in JSON.
type traceAttribute struct {
	Key   string            `json:"key"`
	Value map[string]string `json:"value"`
}

type otlpSpan struct {
	Trace      string           `json:"traceId"`
	Span       string           `json:"spanId"`
	Parent     string           `json:"parentSpanId,omitempty"`
	Name       string           `json:"name"`
	Kind       int              `json:"kind"` // 1: internal
	Began      string           `json:"startTimeUnixNano"`
	Ended      string           `json:"endTimeUnixNano"`
	Attributes []traceAttribute `json:"attributes,omitempty"`
	Status     map[string]any   `json:"status,omitempty"`
}

func traceText(key, value string) traceAttribute {
	return traceAttribute{key, map[string]string{"stringValue": value}}
}

func traceInt(key string, value int) traceAttribute {
	return traceAttribute{key, map[string]string{"intValue": strconv.Itoa(value)}}
}

// Has says whether the trace is among those that are sent. The spans of others need not be made.
func (t *tracer) Has(traceID string) bool {
	id, err := hex.DecodeString(traceID)
	return err == nil && binary.BigEndian.Uint64(id[8:])>>1 < t.below
}

// Add tells of a span of a trace.
func (t *tracer) Add(traceID string, s traceSpan) {
	out := otlpSpan{Trace: traceID, Span: fmt.Sprintf("%016x", rand.Uint64()|1), Name: s.Name, Kind: 1, Attributes: s.Attributes,
		Began: strconv.FormatInt(s.Began.UnixNano(), 10), Ended: strconv.FormatInt(s.Ended.UnixNano(), 10)}
	first := spanID("first", traceID)
	switch {
	case s.First:
		out.Span = first
	case s.ID != "":
		out.Span = spanID("span", s.ID)
	}
	if !s.First {
		out.Parent = first
		if s.Below != "" {
			out.Parent = spanID("span", s.Below)
		}
	}
	if s.Failed != "" {
		out.Status = map[string]any{"code": 2, "message": s.Failed}
	}
	select {
	case t.spans <- out:
	default:
		t.dropped.Add(1)
	}
}

func spanID(kind, key string) string {
	sum := sha256.Sum256([]byte("countersign " + kind + "\x00" + key))
	return hex.EncodeToString(sum[:8])
}
