package book

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/merchant"
)

// BenchmarkInboxClaim takes new deposits into the inbox from 64 callers at once.
func BenchmarkInboxClaim(b *testing.B) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			end := New(openAt(b, d.url(b)), Config{})
			var next atomic.Int64
			b.ResetTimer()
			var work sync.WaitGroup
			for range 64 {
				work.Go(func() {
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						id := fmt.Sprintf("%d-%d", n, n*7919)
						if r, err := end.Claim(ctx, inboxDeposit(id, "tx"+id, -1)); err != nil || r.State != merchant.StateTaken {
							b.Errorf("%+v, %v", r, err)
							return
						}
					}
				})
			}
			work.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deposits/s")
		})
	}
}
