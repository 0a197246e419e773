//go:build unix

package daemon

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/dispatch"
	"countersign/internal/outbox"
	"countersign/merchant"
)

// BenchmarkTraces makes and sends the spans of deposits, those of both ends, of all and of
// one in a hundred. cpu-ns/op has the collector's reading too. Without traces nothing of it
// runs.
func BenchmarkTraces(b *testing.B) {
	for _, share := range []string{"1", "0.01"} {
		b.Run("share="+share, func(b *testing.B) {
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
			b.Cleanup(collector.Close)
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			b.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			b.Setenv("OTEL_TRACES_SAMPLER_ARG", share)
			t, err := newTracing(true, "bench", slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime(b)
			for i := range b.N {
				d, now := countersigntest.Deposit(i), time.Now()
				d.RequestUUID = strconv.Itoa(i)
				claimed := outbox.Claimed{Callback: outbox.Callback{ID: "01J9", Merchant: "shop", Type: d.CallbackType(), TrackingID: d.TrackingID, Attempts: 1}}
				t.Call(api.Traced{Route: "POST /v1/deposits", Merchant: "shop", TrackingID: d.TrackingID, First: true, Began: now, Ended: now})
				t.Claimed([]outbox.Claimed{claimed}, now, now)
				t.Attempted(dispatch.Attempted{Callback: claimed, Attempt: outbox.Attempt{Number: 1, RequestUUID: d.RequestUUID, Node: "a", HTTPStatus: 200},
					Verdict: dispatch.Verdict{Result: client.AttemptAccepted}, Steps: dispatch.Steps{Began: now, Sealed: now, Posted: now, Judged: now, Settling: now, Kept: now}})
				t.Steps(d, merchant.Steps{Began: now, Received: now, Opened: now, Recorded: now, Answered: now, Reason: merchant.ReasonAccepted})
			}
			t.Close(b.Context())
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process has used of the processors.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
