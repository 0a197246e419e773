package merchant_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"countersign"
	"countersign/countersigntest"
	"countersign/envelope"
	"countersign/merchant"
)

// direct is a recorder that takes a read deadline, as a connection does.
type direct struct{ *httptest.ResponseRecorder }

func (direct) SetReadDeadline(time.Time) error { return nil }

// BenchmarkHandler takes new deposits at 1024 bit with the inbox in memory, on
// one core, without a network. Taking turns with it, the RSA operations of the
// same callbacks run alone: opening the request and sealing the answer.
// of-rsa-% is what share of the rate of the latter is reached; callbacks/s is
// per core.
func BenchmarkHandler(b *testing.B) {
	for _, bits := range []int{1024, 2048} {
		for _, name := range []string{"function", "recording"} {
			b.Run(name+"/"+map[int]string{1024: "1024", 2048: "2048"}[bits], func(b *testing.B) {
				benchHandler(b, bits, name == "function")
			})
		}
	}
}

func benchHandler(b *testing.B, bits int, function bool) {
	const deposits = 256
	service := newService(b, countersigntest.ServiceConfig{Key: mustKey(bits)})
	key := service.MerchantKey()
	bodies := make([][]byte, deposits)
	answers := make([][]byte, deposits)
	for i := range bodies {
		body, sent, err := service.Body(countersigntest.Deposit(i))
		if err != nil {
			b.Fatal(err)
		}
		bodies[i] = body
		d := countersigntest.Deposit(i)
		d.RequestUUID = sent.UUID()
		answers[i] = must(d.Accept(countersign.Details{}).Marshal())(b)
	}
	var handled, raw time.Duration
	n := 0
	for b.Loop() {
		c := service.MerchantConfig()
		c.Inbox, c.Log = merchant.NewMemoryInbox(), slog.New(slog.DiscardHandler)
		if function {
			c.OnDeposit = func(context.Context, merchant.Deposit) error { return nil }
			c.OnPossibleDuplicate = merchant.KeepForReview
		}
		h := must(merchant.New(c))(b)
		began := time.Now()
		for i := range bodies {
			r := httptest.NewRequest("POST", merchant.DefaultNotifyPath, bytes.NewReader(bodies[i]))
			r.Header.Set("X-API-KEY", service.CallbackAPIKey().Reveal())
			rec := httptest.NewRecorder()
			h.ServeHTTP(direct{rec}, r)
			if rec.Code != 200 {
				b.Fatal(rec.Body.String())
			}
		}
		handled += time.Since(began)
		began = time.Now()
		for i := range bodies {
			if _, err := envelope.Open(key, envelope.PKCS1v15, bodies[i]); err != nil {
				b.Fatal(err)
			}
			if _, err := envelope.Seal(key, envelope.PKCS1v15, answers[i]); err != nil {
				b.Fatal(err)
			}
		}
		raw += time.Since(began)
		n += deposits
	}
	b.ReportMetric(float64(n)/handled.Seconds(), "callbacks/s")
	b.ReportMetric(100*raw.Seconds()/handled.Seconds(), "of-rsa-%")
	b.ReportMetric(0, "ns/op")
}
