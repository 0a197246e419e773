package outbox

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/db"
	"countersign/internal/lab/endtest"
)

func eachDialect(b *testing.B, fn func(b *testing.B, s *Outbox)) {
	for name, url := range endtest.Kinds(End()) {
		b.Run(name, func(b *testing.B) { fn(b, openAt(b, url(b))) })
	}
}

// foundBy returns a deposit the user and the address by which people search, both spread.
func foundBy(d NewCallback, n int) NewCallback {
	h := uint64(n) * 0x9e3779b97f4a7c15
	d.TenantUserID, d.Address = fmt.Sprintf("user-%06x", h>>40), fmt.Sprintf("0x%040x", h)
	return d
}

// fill makes n callbacks due now.
func fill(b *testing.B, s *Outbox, ids []string, label string, n int) {
	b.Helper()
	for at := 0; at < n; at += 1000 {
		items := make([]NewCallback, min(1000, n-at))
		for i := range items {
			items[i] = foundBy(deposit(ids[(at+i)%len(ids)], fmt.Sprintf("%s-%d", label, at+i), 1), at+i)
		}
		if _, err := s.Ingest(ctx, items, 1000); err != nil {
			b.Fatal(err)
		}
	}
}

// work claims and settles one batch.
func work(b *testing.B, s *Outbox, most int, now db.Millis) int {
	b.Helper()
	claimed, err := s.Claim(ctx, ClaimRequest{Now: now, LeaseUntil: now + 60_000, Max: most})
	if err != nil {
		b.Fatal(err)
	}
	settlements := make([]Settlement, len(claimed))
	for i, c := range claimed {
		settlements[i] = settlementOf(c)
	}
	done, err := s.Settle(ctx, settlements, now+10)
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range done {
		if !d.Applied {
			b.Fatal("a settlement was not applied")
		}
	}
	return len(claimed)
}

// What the database alone allows: nodes keep, claim and settle deposits as those of a
// service do, without RSA, HTTP and anybody to send to.
func BenchmarkCeiling(b *testing.B) {
	for _, count := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			eachDialect(b, func(b *testing.B, s *Outbox) {
				if count > 1 && !s.Dialect().Shared {
					b.Skip("one process has a SQLite database")
				}
				ids := addMerchants(b, s, 64, nil)
				var kept, settled atomic.Int64
				var all sync.WaitGroup
				on := func() bool { return settled.Load() < int64(b.N) && !b.Failed() }
				b.ResetTimer()
				for i := range count {
					node := s
					if i > 0 {
						node = another(b, s)
					}
					all.Go(func() { // the API, at most 8,000 ahead
						share := b.N / count
						if i == 0 {
							share += b.N % count
						}
						for at := 0; at < share && on(); {
							if kept.Load()-settled.Load() > 8000 {
								time.Sleep(time.Millisecond)
								continue
							}
							n := min(100, share-at)
							fill(b, node, ids, fmt.Sprint("node", i, "-", at), n)
							kept.Add(int64(n))
							at += n
						}
					})
					for range 2 { // its claimer and its settlers
						all.Go(func() {
							for on() {
								n := work(b, node, 256, db.MillisOf(time.Now()))
								if settled.Add(int64(n)); n == 0 {
									time.Sleep(time.Millisecond)
								}
							}
						})
					}
					all.Go(func() { // what a claim beside an ingest can leave
						for last := time.Now(); on(); time.Sleep(10 * time.Millisecond) {
							if time.Since(last) < time.Second {
								continue
							}
							last = time.Now()
							if _, err := node.Sweep(ctx, db.MillisOf(last)); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
			})
		})
	}
}
