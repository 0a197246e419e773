//go:build unix

package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"countersign"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	lib "countersign/merchant"
)

// BenchmarkLinkCost sends deposits to two merchants of the same pair in turns: one without
// signatures, and one whose messages are signed and verified in both directions. It compares the processor time of a
// deposit at both ends together, pair by pair, so that what else the machine does hardly matters.
func BenchmarkLinkCost(b *testing.B) {
	for _, bits := range []int{1024, 2048} {
		b.Run(fmt.Sprint(bits), func(b *testing.B) { benchmarkLinkCost(b, bits) })
	}
}

func benchmarkLinkCost(b *testing.B, bits int) {
	s, pair := openStore(b, dbtest.SQLite(b)), mustKey(bits)
	service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	for id, signs := range map[string]bool{"plain": false, "signed": true} {
		c := lib.Config{Key: pair.Public(), APIKey: testKey, CallbackAPIKeys: []countersign.APIKey{"callback-key"}, NotifyPath: "/notify", WithdrawPath: "/withdraw", Inbox: lib.NewMemoryInbox(),
			Log: slog.New(slog.DiscardHandler), OnDeposit: func(context.Context, lib.Deposit) error { return nil }, OnPossibleDuplicate: lib.KeepForReview}
		server := httptest.NewUnstartedServer(nil)
		if signs {
			// With PublicURL, as over TLS, one URL is tried.
			c.Sign, c.ServiceSigner, c.PublicURL = own, service.Public(), "http://"+server.Listener.Addr().String()
		}
		h, err := lib.New(c)
		if err != nil {
			b.Fatal(err)
		}
		server.Config.Handler = h
		server.Start()
		defer server.Close()
		row := testStoreMerchant(id, pair, server.URL)
		if row.Concurrency = 64; signs {
			row.AnswerKey = own.PublicBase64()
		}
		if _, err := s.CreateMerchant(b.Context(), row, db.MillisOf(time.Now())); err != nil {
			b.Fatal(err)
		}
	}
	const n = 1000
	total := 0
	round := func(merchant string) float64 {
		ingestFor(b, s, merchant, total, n)
		total += n
		before := cpuTime()
		drain(b, s, n, service)
		return (cpuTime() - before) / n * 1000
	}
	round("plain")
	round("signed")
	var plain, signed, more []float64
	for i := 0; b.Loop(); i++ {
		x, y := 0.0, 0.0
		if i%2 == 0 {
			x, y = round("plain"), round("signed")
		} else {
			y, x = round("signed"), round("plain")
		}
		plain, signed, more = append(plain, x), append(signed, y), append(more, 100*(y/x-1))
	}
	slices.Sort(more)
	b.ReportMetric(median(plain), "ms-plain")
	b.ReportMetric(median(signed), "ms-signed")
	b.ReportMetric(median(more), "%more")
	b.ReportMetric(more[0], "%least")
	b.ReportMetric(more[len(more)-1], "%most")
	b.ReportMetric(0, "ns/op")
}
