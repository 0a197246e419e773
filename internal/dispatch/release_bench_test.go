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
// without, and judged in calls of 100 by two callers, in turns. FIGURES.md has its figures.
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
	judges := map[string]outbox.JudgeFunc{"judged": d.JudgeAgain, "together": d.JudgeAgain, "believed": func(_ context.Context, e *outbox.Evidence) (countersign.Details, error) {
		return countersign.Details{Address: e.Details.Address, ChainName: e.Details.ChainName, Symbol: e.Details.Symbol, Amount: e.Details.Amount}, nil
	}}
	n := 0
	for b.Loop() {
		const each = 500
		for _, name := range []string{"believed", "judged", "together"} {
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
			size, most := 1, 16
			if name == "together" {
				size, most = 100, 2
			}
			began := time.Now()
			var next atomic.Int64
			var callers sync.WaitGroup
			for range most {
				callers.Go(func() {
					for from := int(next.Add(1)-1) * size; from < each; from = int(next.Add(1)-1) * size {
						var asked []outbox.ReleaseRequest
						for i, id := range ids[from : from+size] {
							asked = append(asked, outbox.ReleaseRequest{ID: id, Holder: outbox.Holder{Claim: "c", Origin: "core"}, Permit: fmt.Sprint("permit", from+i)})
						}
						done, err := s.ReleaseMany(ctx, asked, nil, db.MillisOf(time.Now()))
						if err != nil {
							b.Error(err)
						}
						for _, r := range done {
							if r.Err != nil {
								b.Error(r.Err)
							}
						}
					}
				})
			}
			callers.Wait()
			b.ReportMetric(each/time.Since(began).Seconds(), name+"/s")
		}
	}
}
