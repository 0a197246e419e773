package daemon

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/book"
	"countersign/internal/db"
)

// traceReceiver takes traces as a collector does.
type traceReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	raw   strings.Builder
	spans []*tracepb.Span
}

func startTraceReceiver(t *testing.T) *traceReceiver {
	r := &traceReceiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var m collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", req.URL.Path, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.raw.WriteString(m.String())
		for _, of := range m.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	return r
}

// traced lets both ends deliver a deposit and confirm a withdrawal.
func traced(t *testing.T, b *bothEnds) {
	t.Helper()
	ctx := t.Context()
	d, w := countersigntest.Deposit(1), countersigntest.Withdrawal(1)
	if _, _, err := b.gateway.Book().AddOrder(ctx, book.NewOrder{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID,
		Details: countersigntest.Order(1), Expires: db.Never}, db.MillisOf(time.Now())); err != nil {
		t.Fatal(err)
	}
	if _, err := b.api.AddDeposits(ctx, client.NewDeposit{Merchant: "shop", TrackingID: d.TrackingID, TenantUserID: d.TenantUserID, TxID: d.TxID,
		ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress, TxIndex: d.TxIndex}); err != nil {
		t.Fatal(err)
	}
	asked, err := b.api.CreateWithdrawal(ctx, client.NewWithdrawal{Merchant: "shop", CallBackID: w.CallBackID, TenantUserID: w.TenantUserID})
	if err != nil {
		t.Fatal(err)
	}
	b.await("both are settled", func(ctx context.Context) (bool, error) {
		n := 0
		for _, err := range b.api.AllCallbacks(ctx, client.CallbackFilter{State: client.CallbackAccepted}) {
			if err != nil {
				return false, err
			}
			n++
		}
		return n == 2, nil
	})
	if _, err := b.api.ReleaseWithdrawal(ctx, asked.ID, "wallet"); err != nil {
		t.Fatal(err)
	}
}

// TestTraces: one trace holds all that both ends did with a deposit, and one what they
// did with a withdrawal: what the merchant's end did hangs below the attempt that it
// answered, although nothing of the trace goes over the wire. No secret, amount or
// address is in them.
func TestTraces(t *testing.T) {
	r := startTraceReceiver(t)
	b := startBoth(t, t.TempDir(), "", "")
	traced(t, b)
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	byTrace := map[string][]*tracepb.Span{}
	for _, s := range r.spans {
		byTrace[string(s.TraceId)] = append(byTrace[string(s.TraceId)], s)
	}
	if len(byTrace) != 2 {
		t.Fatalf("%d traces of %d spans", len(byTrace), len(r.spans))
	}
	steps := []string{"answer", "attempt", "body", "claim", "judge", "open", "post", "receive", "record", "seal", "settle"}
	for _, spans := range byTrace {
		byID := map[string]*tracepb.Span{}
		var names []string
		first := ""
		for _, s := range spans {
			names = append(names, s.Name)
			if byID[string(s.SpanId)] != nil {
				t.Errorf("two spans are %s", hex.EncodeToString(s.SpanId))
			}
			byID[string(s.SpanId)] = s
			if len(s.ParentSpanId) == 0 {
				first += s.Name
			}
		}
		slices.Sort(names)
		want := append([]string{"POST /v1/deposits"}, steps...)
		if first == "POST /v1/withdrawals" {
			want = append([]string{"POST /v1/withdrawals", "POST /v1/withdrawals/{id}/release"}, steps...)
			if text := attributesOf(spans, "attempt"); !strings.Contains(text, "confirmed") || !strings.Contains(text, countersigntest.Withdrawal(1).CallBackID) {
				t.Errorf("the attempt has %s", text)
			}
		}
		if !slices.Equal(names, want) || first != want[0] {
			t.Errorf("below %q the spans %q, want %q", first, names, want)
		}
		below := map[string]string{"claim": want[0], "attempt": want[0], "seal": "attempt", "post": "attempt", "judge": "attempt", "settle": "attempt",
			"receive": "attempt", "body": "receive", "open": "receive", "record": "receive", "answer": "receive"}
		for _, s := range spans {
			over := byID[string(s.ParentSpanId)]
			if over == nil {
				continue
			}
			if want, known := below[s.Name]; known && over.Name != want {
				t.Errorf("%s is below %s", s.Name, over.Name)
			}
			if s.EndTimeUnixNano < s.StartTimeUnixNano || below[s.Name] != want[0] && known(below, s.Name) &&
				(s.StartTimeUnixNano < over.StartTimeUnixNano || s.EndTimeUnixNano > over.EndTimeUnixNano) {
				t.Errorf("%s is not within %s", s.Name, over.Name)
			}
		}
	}
	d, o := countersigntest.Deposit(1), countersigntest.Order(1)
	for _, secret := range []string{apiKey.Reveal(), d.ToAddress, d.FromAddress, d.TxID, o.Address, string(d.Amount.String()), "cpt_", "PRIVATE"} {
		if strings.Contains(r.raw.String(), secret) {
			t.Errorf("the traces have %q", secret)
		}
	}
}

func known(m map[string]string, name string) bool { _, ok := m[name]; return ok }

func attributesOf(spans []*tracepb.Span, name string) (text string) {
	for _, s := range spans {
		if s.Name == name {
			for _, a := range s.Attributes {
				text += a.Key + "=" + a.Value.String() + " "
			}
		}
	}
	return text
}

// TestTracesWithoutCollector: a collector that is away stops nothing, and no more than a
// few seconds at the end.
func TestTracesWithoutCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	b := startBoth(t, t.TempDir(), "", "")
	traced(t, b)
	if err := b.stop(); err != nil {
		t.Error(err)
	}
}
