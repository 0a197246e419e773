package db_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

// realDeposit is a deposit as services send it: 475 bytes, a trackingId of 13, a txId of 66.
func realDeposit(i int) outbox.NewCallback {
	n := deposit(fmt.Sprintf("%08d-%04d", i/10_000, i%10_000))
	n.TxID, n.TenantUserID, n.Address = fmt.Sprintf("0x%064x", i*7919), fmt.Sprint(10_000+i*31%90_000), fmt.Sprintf("0x%040x", i*7919)
	n.Payload = append(n.Payload, make([]byte, 475-len(n.Payload))...)
	return n
}

// BenchmarkBeside keeps and settles 200 deposits a second, in slices of time with and without a purge by turns. The
// slices make pairs, of which every other one begins with the purge, so that whatever else the machine does falls
// on both kinds. It tells the p99 of keeping a deposit in the slices, and the quotients of the pairs.
func BenchmarkBeside(b *testing.B) {
	const rows, pairs, slice, rate = 20_000, 10, 6 * time.Second, 200
	for name, url := range endtest.Kinds(outbox.End()) {
		b.Run(name, func(b *testing.B) {
			o := newService(b, url(b))
			settled(b, o, rows, realDeposit)
			dbtest.Tidy(b, o.Dialect().Shared, o.Exec)
			p := must(outbox.NewPurger(config(o.DB)))(b)
			next, gone := 1_000_000_000, int64(0)
			var p99 [2][]float64 // ms, without and with a purge
			for i := range 2 * pairs {
				var all sync.WaitGroup
				var mu sync.Mutex
				var took []float64
				end := time.Now().Add(slice)
				all.Go(func() { // the sender
					for time.Now().Before(end) {
						settle(b, o, countersign.LaneNotify, db.MillisOf(time.Now()), accept)
						time.Sleep(20 * time.Millisecond)
					}
				})
				kind := 0
				if i%4 == 1 || i%4 == 2 {
					kind = 1
					all.Go(func() {
						for time.Now().Before(end) {
							done, err := p.Step(ctx, db.MillisOf(time.Now())+200*day)
							if err != nil || done.Ended {
								b.Errorf("the purge has ended: %v; take more rows", err)
								return
							}
							gone += done.Purged
							time.Sleep(done.Wait)
						}
					})
				}
				for due := time.Now(); due.Before(end); due = due.Add(time.Second / rate) {
					time.Sleep(time.Until(due))
					next++
					c := realDeposit(next)
					all.Go(func() {
						ingest(b, o, c, db.MillisOf(due))
						mu.Lock()
						defer mu.Unlock()
						took = append(took, float64(time.Since(due).Microseconds())/1000)
					})
				}
				all.Wait()
				slices.Sort(took)
				p99[kind] = append(p99[kind], took[len(took)*99/100])
			}
			quotients := make([]float64, pairs)
			for i := range quotients {
				quotients[i] = p99[1][i] / p99[0][i]
			}
			for _, list := range [][]float64{quotients, p99[0], p99[1]} {
				slices.Sort(list)
			}
			b.Logf("p99 in ms of slices without a purge %.1f, with one %.1f; with/without of the pairs: %.2f", p99[0], p99[1], quotients)
			b.ReportMetric(p99[0][pairs/2], "ms-p99-alone")
			b.ReportMetric(p99[1][pairs/2], "ms-p99-beside")
			b.ReportMetric(quotients[pairs/2], "beside/alone")
			b.ReportMetric(float64(gone)/(slice.Seconds()*pairs), "purged/s")
		})
	}
}
