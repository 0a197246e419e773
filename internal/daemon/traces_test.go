package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
)

// traceReceiver takes traces as a collector does.
type traceReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	raw   strings.Builder
	spans []otlpSpan
}

func startTraceReceiver(t *testing.T) *traceReceiver {
	r := &traceReceiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var m struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []traceAttribute }
				ScopeSpans []struct{ Spans []otlpSpan }
			}
		}
		if err := json.Unmarshal(body, &m); err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/json" || req.Header.Get("X-Key") != "a,b" {
			t.Errorf("%s: %v, %v", req.URL.Path, err, req.Header)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.raw.Write(body)
		for _, of := range m.ResourceSpans {
			if text := fmt.Sprint(of.Resource.Attributes); !strings.Contains(text, "countersign-") || !strings.Contains(text, "deployment.environment") {
				t.Errorf("the resource has %s", text)
			}
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%2Cb")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	return r
}

// traced lets both ends deliver a deposit and confirm a withdrawal.
func traced(t *testing.T, b *bothEnds) {
	t.Helper()
	ctx := t.Context()
	d, w := countersigntest.Deposit(1), countersigntest.Withdrawal(1)
	if _, _, err := b.gateway.Book().AddOrder(ctx, client.NewOrder{CallBackID: w.CallBackID, TenantUserID: w.TenantUserID}.Paying(countersigntest.Order(1)), "", db.MillisOf(time.Now())); err != nil {
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
	byTrace := map[string][]otlpSpan{}
	for _, s := range r.spans {
		byTrace[s.Trace] = append(byTrace[s.Trace], s)
	}
	if len(byTrace) != 2 {
		t.Fatalf("%d traces of %d spans", len(byTrace), len(r.spans))
	}
	steps := []string{"answer", "attempt", "body", "claim", "judge", "open", "post", "receive", "record", "seal", "settle"}
	for _, spans := range byTrace {
		byID := map[string]otlpSpan{}
		var names []string
		first := ""
		for _, s := range spans {
			names = append(names, s.Name)
			if _, twice := byID[s.Span]; twice {
				t.Errorf("two spans are %s", s.Span)
			}
			byID[s.Span] = s
			if s.Parent == "" {
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
			over, known := byID[s.Parent]
			if !known {
				continue
			}
			if want, is := below[s.Name]; is && over.Name != want {
				t.Errorf("%s is below %s", s.Name, over.Name)
			}
			if s.Ended < s.Began || below[s.Name] != want[0] && inBelow(below, s.Name) &&
				(s.Began < over.Began || s.Ended > over.Ended) {
				t.Errorf("%s is not within %s", s.Name, over.Name)
			}
		}
	}
	d, o := countersigntest.Deposit(1), countersigntest.Order(1)
	for _, id := range []string{countersign.TraceID("", d.TrackingID), countersign.TraceID(countersigntest.Withdrawal(1).CallBackID, countersigntest.Withdrawal(1).TrackingID)} {
		if byTrace[id] == nil {
			t.Errorf("no span is of the trace %s", id)
		}
		for _, message := range []string{"request", "attempt", "callback"} { // of the service, its sender and the gateway
			if !regexp.MustCompile(`(?m)^.* msg=` + message + ` .*trace=` + id + `( |$)`).MatchString(b.log.text.String()) {
				t.Errorf("no line %s has the trace %s", message, id)
			}
		}
	}
	for _, secret := range []string{apiKey.Reveal(), d.ToAddress, d.FromAddress, d.TxID, o.Address, string(d.Amount.String()), "cpt_", "PRIVATE"} {
		if strings.Contains(r.raw.String(), secret) {
			t.Errorf("the traces have %q", secret)
		}
	}
}

func inBelow(m map[string]string, name string) bool { _, ok := m[name]; return ok }

func attributesOf(spans []otlpSpan, name string) (text string) {
	for _, s := range spans {
		if s.Name == name {
			for _, a := range s.Attributes {
				text += fmt.Sprint(a.Key, "=", a.Value, " ")
			}
		}
	}
	return text
}

// TestTraceVariables: a variable that cannot be read ends the start with its name.
func TestTraceVariables(t *testing.T) {
	for variable, wrong := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS": "x-key", "OTEL_RESOURCE_ATTRIBUTES": "a=%zz",
		"OTEL_TRACES_SAMPLER": "some", "OTEL_TRACES_SAMPLER_ARG": "2"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			if variable == "OTEL_TRACES_SAMPLER_ARG" {
				t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			}
			t.Setenv(variable, wrong)
			if _, err := openTracer("x", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), variable) {
				t.Error(err)
			}
		})
	}
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
