//go:build unix

package console_test

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/merchant"
)

// BenchmarkPages serves the pages with lists from a service with 100,000 callbacks.
func BenchmarkPages(b *testing.B) {
	base, token := node(b, nil)
	admin := serviceAPI(b, base, token)
	if _, err := admin.CreateMerchant(b.Context(), client.NewMerchant{
		ID:               "shop",
		Key:              &client.KeySpec{Bits: 1024},
		MerchantSettings: client.MerchantSettings{Name: "Shop", NotifyURL: "http://127.0.0.1:1/n", WithdrawURL: "http://127.0.0.1:1/w"},
	}); err != nil {
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
	timePages(b, newSite(b, base).signIn(token), map[string]string{
		"now": "/console/now", "tasks": "/console/", "merchant": "/console/merchants/shop", "callbacks": "/console/callbacks", "pending": "/console/callbacks?state=pending&merchant=shop",
		"refused": "/console/callbacks?state=refused", "tracking": "/console/callbacks?trackingId=d-77777", "audit": "/console/audit", "audit-search": "/console/audit?text=nothing",
	})
}

// processor is the time that this process has used of the processors: other load on the
// machine disturbs it less than it does the clock.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// timePages serves each page again and again. Beside the mean it reports the slowest and
// the processor time of one page, the caller's included.
func timePages(b *testing.B, s *site, pages map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		b.Run(name, func(b *testing.B) {
			var slowest time.Duration
			begun := processor(b)
			for b.Loop() {
				start := time.Now()
				switch p := s.get(pages[name]); p.status {
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
			b.ReportMetric(float64((processor(b)-begun).Microseconds())/1000/float64(b.N), "cpu-ms/page")
			b.ReportMetric(float64(slowest.Microseconds())/1000, "ms/slowest")
		})
	}
}

// BenchmarkGatewayPages serves the pages of a gateway with 100,000 deposits and 100,000
// orders, 50 of which await a person.
func BenchmarkGatewayPages(b *testing.B) {
	s, ctx := newShop(b), b.Context()
	const rows, writers = 100_000, 64
	now := time.Now()
	var next atomic.Int64
	errs := make(chan error, writers)
	for range writers {
		go func() {
			for n := int(next.Add(1)); n <= rows; n = int(next.Add(1)) {
				d := countersigntest.Deposit(n)
				e := merchant.NewEntry(d)
				e.At = now
				if _, err := s.book.Claim(ctx, e); err != nil {
					errs <- err
					return
				}
				o := client.NewOrder{CallBackID: fmt.Sprintf("order-%d", n), TenantUserID: fmt.Sprintf("user-%d", n%1000),
					Address: fmt.Sprintf("TTarget-%d", n%500), ChainName: "TRON", Symbol: "USDT", Amount: d.Amount}
				if _, _, err := s.book.AddOrder(ctx, o, "", db.MillisOf(now)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
	for i := range 50 {
		s.held(fmt.Sprintf("held-%d", i))
	}
	timePages(b, newSite(b, s.base).signIn(s.first), map[string]string{
		"tasks": "/console/", "orders": "/console/orders", "held": "/console/orders?state=held", "address": "/console/orders?address=TTarget-77", "user": "/console/orders?tenantUserId=user-7",
		"order": "/console/orders/order-77777", "deposits": "/console/deposits", "transaction": "/console/deposits?txId=" + countersigntest.Deposit(77777).TxID, "deposit": "/console/deposits/50000",
		"forwarding": "/console/forwarding", "audit": "/console/audit", "audit-search": "/console/audit?text=nothing",
	})
}
