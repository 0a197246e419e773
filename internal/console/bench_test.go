package console_test

import (
	"fmt"
	"testing"
	"time"

	"countersign/client"
)

// BenchmarkPages serves the pages with lists from a service with 100,000 callbacks.
func BenchmarkPages(b *testing.B) {
	base, token := node(b, nil)
	admin := serviceAPI(b, base, token)
	if _, err := admin.CreateMerchant(b.Context(), client.NewMerchant{ID: "shop", Name: "Shop", Key: &client.KeySpec{Bits: 1024},
		NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"}); err != nil {
		b.Fatal(err)
	}
	if _, err := admin.PauseMerchant(b.Context(), "shop", ""); err != nil {
		b.Fatal(err)
	}
	const callbacks, batch = 100_000, 1000
	for n := 0; n < callbacks; n += batch {
		list := make([]client.NewDeposit, batch)
		for i := range list {
			list[i] = deposit(b, "shop", fmt.Sprintf("d-%d", n+i))
		}
		if _, err := admin.AddDeposits(b.Context(), list...); err != nil {
			b.Fatal(err)
		}
	}
	s := newSite(b, base).signIn(token)
	for name, path := range map[string]string{
		"now": "/console/", "merchant": "/console/merchants/shop", "callbacks": "/console/callbacks", "pending": "/console/callbacks?state=pending&merchant=shop",
		"refused": "/console/callbacks?state=refused", "tracking": "/console/callbacks?trackingId=d-77777", "audit": "/console/audit", "audit-search": "/console/audit?text=nothing",
	} {
		b.Run(name, func(b *testing.B) {
			var slowest time.Duration
			for b.Loop() {
				start := time.Now()
				switch p := s.get(path); p.status {
				case 200:
				case 429: // the token's rate: each page makes several calls
					b.StopTimer()
					time.Sleep(time.Second)
					b.StartTimer()
					continue
				default:
					b.Fatalf("%d %s", p.status, p.body)
				}
				slowest = max(slowest, time.Since(start))
			}
			b.ReportMetric(float64(slowest.Microseconds())/1000, "ms/slowest")
		})
	}
}
