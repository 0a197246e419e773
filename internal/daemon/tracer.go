package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TracesOn says whether traces are asked for: OTEL_EXPORTER_OTLP_ENDPOINT is set.
func TracesOn() bool { return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" }

// tracerConfig is what New needs.
type tracerConfig struct {
	Service, Version string       // of this process. Required
	Log              *slog.Logger // gets what could not be sent. Required
}

// tracer sends spans in the background, in batches; what a slow collector does not take
// in time is dropped. A nil tracer has no methods to call: ask before.
//
// Nothing of a trace goes over the wire of the protocol. Both ends make the ids from what
// they know: the trace from the callBackId of a withdrawal or the trackingId of anything
// else, the span of an attempt from its requestUUID. So all that concerns one withdrawal
// or deposit is one trace, and what the merchant's end did hangs below the attempt that
// it answered.
type tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sampler  sdk.Sampler
}

// openTracer makes a tracer. The variables OTEL_EXPORTER_OTLP_… say where to and how; of
// OTEL_TRACES_SAMPLER it knows always_on, always_off and traceidratio, with a parent
// or without.
func openTracer(ctx context.Context, c tracerConfig) (*tracer, error) {
	share, err := traceShare()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	log := c.Log
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces were not sent", "error", err.Error())
	}))
	about, err := resource.Merge(resource.Default(), resource.NewSchemaless(
		attribute.String("service.name", c.Service), attribute.String("service.version", c.Version)))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("traces: %w", err)
	}
	sampler := sdk.TraceIDRatioBased(share) // by the trace alone, so both ends keep the same ones
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about), sdk.WithIDGenerator(traceIDs{}), sdk.WithSampler(sampler))
	return &tracer{p, p.Tracer("countersign"), sampler}, nil
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
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// traceKey names a trace: by the withdrawal, or by the trackingId of anything else.
func traceKey(callBackID, trackingID string) string {
	if callBackID != "" {
		return "withdrawal/" + callBackID
	}
	return "callback/" + trackingID
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
	Attributes []attribute.KeyValue
}

// Has says whether the trace named key is among those that are sent. The spans of others
// need not be made.
func (t *tracer) Has(key string) bool {
	return t.sampler.ShouldSample(sdk.SamplingParameters{ParentContext: context.Background(), TraceID: traceOf(key)}).Decision == sdk.RecordAndSample
}

// Add tells of a span of the trace named key.
func (t *tracer) Add(key string, s traceSpan) {
	of := chosenIDs{trace: traceOf(key)}
	first := trace.SpanID(traceDigest("first", key, 8))
	ctx := context.Background()
	switch {
	case s.First:
		of.span = first
	case s.ID != "":
		of.span = spanOf(s.ID)
	}
	if !s.First {
		below := first
		if s.Below != "" {
			below = spanOf(s.Below)
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: of.trace, SpanID: below, TraceFlags: trace.FlagsSampled}))
	}
	_, span := t.tracer.Start(context.WithValue(ctx, chosenIDs{}, of), s.Name, trace.WithTimestamp(s.Began), trace.WithAttributes(s.Attributes...))
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	span.End(trace.WithTimestamp(s.Ended))
}

func traceDigest(kind, key string, n int) []byte {
	sum := sha256.Sum256([]byte("countersign " + kind + "\x00" + key))
	return sum[:n]
}

func traceOf(key string) trace.TraceID { return trace.TraceID(traceDigest("trace", key, 16)) }

func spanOf(id string) trace.SpanID { return trace.SpanID(traceDigest("span", id, 8)) }

// chosenIDs are the ids of the next span. It is its own key in a context.
type chosenIDs struct {
	trace trace.TraceID
	span  trace.SpanID // zero: a random one
}

// traceIDs gives the ids that the context chose.
type traceIDs struct{}

func (traceIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(chosenIDs{}).(chosenIDs)
	return c.trace, traceIDs{}.NewSpanID(ctx, c.trace)
}

func (traceIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c, _ := ctx.Value(chosenIDs{}).(chosenIDs); c.span.IsValid() {
		return c.span
	}
	var random trace.SpanID
	binary.BigEndian.PutUint64(random[:], rand.Uint64()|1) // never zero
	return random
}
