package dispatch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// BenchmarkRelease gives permits to 16 callers at once, with the kept answers judged again and
// without, in pairs. FIGURES.md has its figures.
func BenchmarkRelease(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		b.Run(name, func(b *testing.B) { benchmarkRelease(b, openStore(b, url(b))) })
	}
}

func benchmarkRelease(b *testing.B, s *outbox.Outbox) {
	pair := mustKey(2048)
	m := newTestMerchant(pair)
	row := testStoreMerchant("m1", pair, "https://m1.example")
	if _, err := s.CreateMerchant(b.Context(), row, db.MillisOf(time.Now())); err != nil {
		b.Fatal(err)
	}
	d, err := New(Config{Outbox: s, Node: "n", RSA: 2})
	if err != nil {
		b.Fatal(err)
	}
	d.post = m.post
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	judges := map[string]outbox.JudgeFunc{"judged": d.JudgeAgain, "believed": func(_ context.Context, e *outbox.Evidence) (countersign.Details, error) {
		return countersign.Details{Address: e.Details.Address, ChainName: e.Details.ChainName, Symbol: e.Details.Symbol, Amount: e.Details.Amount}, nil
	}}
	n := 0
	for b.Loop() {
		const each = 500
		for _, name := range []string{"believed", "judged"} {
			var ids []string
			for range each {
				n++
				w := withdrawalPayload(b, n)
				w.Merchant, w.Deadline = "m1", db.MillisOf(time.Now().Add(time.Hour))
				made, _, err := s.CreateWithdrawal(ctx, w, db.MillisOf(time.Now()))
				if err != nil {
					b.Fatal(err)
				}
				ids = append(ids, made.ID)
			}
			for _, id := range ids {
				for {
					w, err := s.Withdrawal(ctx, id)
					if err != nil {
						b.Fatal(err)
					}
					if w.State == client.WithdrawalConfirmed {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			s.JudgeWith(judges[name])
			began := time.Now()
			var next atomic.Int64
			var callers sync.WaitGroup
			for range 16 {
				callers.Go(func() {
					for i := next.Add(1); int(i) <= each; i = next.Add(1) {
						if _, err := s.Release(ctx, ids[i-1], outbox.Holder{Claim: "c", Origin: "core"}, fmt.Sprint("permit", i), db.MillisOf(time.Now())); err != nil {
							b.Error(err)
						}
					}
				})
			}
			callers.Wait()
			b.ReportMetric(each/time.Since(began).Seconds(), name+"/s")
		}
	}
}
