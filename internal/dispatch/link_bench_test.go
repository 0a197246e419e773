//go:build unix

package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/outbox"
	lib "countersign/merchant"
)

// BenchmarkLinkCost sends deposits to two merchants of the same pair in turns: one without signatures, and one whose
// messages are signed and verified in both directions. It compares the processor time of a deposit at both ends
// together, pair by pair, so that what else the machine does hardly matters.
func BenchmarkLinkCost(b *testing.B) {
	for _, bits := range []int{1024, 2048} {
		b.Run(fmt.Sprint(bits), func(b *testing.B) { benchmarkLinkCost(b, bits) })
	}
}

func benchmarkLinkCost(b *testing.B, bits int) {
	s, pair := newStore(b).Outbox, mustKey(bits)
	service, own := envelope.GenerateSigningKey(), envelope.GenerateSigningKey()
	for id, signs := range map[string]bool{"plain": false, "signed": true} {
		c := lib.Config{Key: pair.Public(), APIKey: testKey, CallbackAPIKeys: []countersign.APIKey{"callback-key"},
			NotifyPath: "/notify", WithdrawPath: "/withdraw", Inbox: lib.NewMemoryInbox(), Log: slog.New(slog.DiscardHandler),
			OnDeposit: func(context.Context, lib.Deposit) error { return nil }, OnPossibleDuplicate: lib.KeepForReview}
		server := httptest.NewUnstartedServer(nil)
		if signs {
			c.Sign, c.ServiceSigner, c.PublicURL = own, service.Public(), "http://"+server.Listener.Addr().String()
		}
		server.Config.Handler = must(lib.New(c))
		server.Start()
		defer server.Close()
		row := testStoreMerchant(id, pair, server.URL)
		if row.Concurrency = 64; signs {
			row.AnswerKey = own.PublicBase64()
		}
		must(s.CreateMerchant(b.Context(), row, now()))
	}
	const n = 1000
	total := 0
	round := func(merchant string) float64 {
		batch := make([]outbox.NewCallback, n)
		for i := range batch {
			batch[i] = depositPayload(total + i)
			batch[i].Merchant = merchant
		}
		must(s.Ingest(b.Context(), batch, now()))
		total += n
		before := processorTime()
		drain(b, s, n, service)
		return float64((processorTime() - before).Microseconds()) / n / 1000
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
	for unit, list := range map[string][]float64{"ms-plain": plain, "ms-signed": signed, "%more": more} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], unit)
	}
	b.ReportMetric(0, "ns/op")
}

// processorTime returns how much processor time this process has used, which other processes do not change.
func processorTime() time.Duration {
	var u syscall.Rusage
	ok(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// drain runs a Dispatcher that signs with key until n callbacks are accepted.
func drain(b *testing.B, s *outbox.Outbox, n int64, key *envelope.SigningKey) {
	ctx, cancel := context.WithCancel(b.Context())
	o := &acceptedObserver{none: cancel}
	o.left.Store(n)
	d := must(New(Config{Outbox: s, Node: "bench", TargetRules: TargetRules{AllowHTTP: true}, Observer: o, Sign: key}))
	ok(d.Run(ctx))
}

// acceptedObserver calls none when no accepted callback is left to come.
type acceptedObserver struct {
	noObserver
	left atomic.Int64
	none func()
}

func (o *acceptedObserver) Attempt(_ countersign.Lane, _ countersign.Type, result client.AttemptResult, _ client.Reason, _ time.Duration) {
	if result == client.AttemptAccepted && o.left.Add(-1) == 0 {
		o.none()
	}
}
