package db_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// manyRows is how many settled callbacks the benchmarks begin with.
func manyRows() int {
	if n, err := strconv.Atoi(os.Getenv("COUNTERSIGN_RETAIN_ROWS")); err == nil {
		return n
	}
	return 20_000
}

// realDeposit is a deposit as services send it: 475 bytes, a trackingId of 13, a txId of 66.
func realDeposit(i int) outbox.NewCallback {
	n := deposit(fmt.Sprintf("%08d-%04d", i/10_000, i%10_000))
	n.TxID = fmt.Sprintf("0x%064x", i*7919)
	n.TenantUserID, n.Address = fmt.Sprint(10_000+i*31%90_000), fmt.Sprintf("0x%040x", i*7919)
	n.Payload = append(n.Payload, make([]byte, 475-len(n.Payload))...)
	return n
}

// median is that of a sorted list.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func fill(b *testing.B, o *outbox.Outbox, n int) {
	b.Helper()
	for i := 0; i < n; i += 1000 {
		list := make([]outbox.NewCallback, min(1000, n-i))
		for k := range list {
			list[k] = realDeposit(i + k)
		}
		accepted(b, o, list, start)
	}
	dbtest.Tidy(b, o.Dialect().Shared, o.Exec)
}

// accepted keeps callbacks that their merchants accept at once.
func accepted(b *testing.B, o *outbox.Outbox, list []outbox.NewCallback, at db.Millis) {
	b.Helper()
	must(o.Ingest(ctx, list, at))(b)
	for n, done := 0, 1; n < len(list); n += done {
		if done = settle(b, o, countersign.LaneNotify, at, accept); done == 0 {
			b.Fatal("nothing is due")
		}
	}
}

func onEach(b *testing.B, fn func(b *testing.B, url string)) {
	for _, d := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", dbtest.SQLite}, {"postgres", dbtest.Postgres}} {
		b.Run(d.name, func(b *testing.B) { fn(b, d.url(b)) })
	}
}

// BenchmarkBeside keeps and settles 200 deposits a second, in slices of time with and without a purge by turns. The
// slices make pairs, of which every other one begins with the purge, so that whatever else the machine does falls
// on both kinds. It tells the median of the p99 of keeping a deposit in the slices of each kind, and of the
// quotients of the pairs the median, the lowest and the highest.
func BenchmarkBeside(b *testing.B) {
	const pairs, slice, rate = 10, 6 * time.Second, 200
	onEach(b, func(b *testing.B, url string) {
		o := newService(b, url)
		fill(b, o, manyRows())
		p := must(outbox.NewPurger(config(o.DB)))(b)
		var mu sync.Mutex
		var took [2 * pairs][]time.Duration
		purges := func(i int) bool { return i%4 == 1 || i%4 == 2 }
		gone := int64(0)
		next := 1_000_000_000
		load := func(ctx context.Context, i int) {
			var all sync.WaitGroup
			tick := time.NewTicker(time.Second / rate)
			defer tick.Stop()
			all.Go(func() { // the sender
				for ctx.Err() == nil {
					now := db.MillisOf(time.Now())
					claimed, err := o.Claim(context.WithoutCancel(ctx), outbox.ClaimRequest{Lane: countersign.LaneNotify, Node: "n", Now: now, LeaseUntil: now + 30_000, Max: 64})
					if err != nil {
						b.Error(err)
						return
					}
					var list []outbox.Settlement
					for _, c := range claimed {
						list = append(list, outbox.Settlement{Merchant: c.Merchant, CallbackID: c.ID, State: client.CallbackAccepted,
							Reached: true, Attempt: outbox.Attempt{Attempt: client.Attempt{Number: c.Attempt, RequestUUID: c.ID, Started: now, HTTPStatus: 200, Result: "accepted", Reason: "accepted", Node: "n"}}})
					}
					if _, err := o.Settle(context.WithoutCancel(ctx), list, now); err != nil {
						b.Error(err)
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case due := <-tick.C:
					next++
					c := realDeposit(next)
					all.Go(func() {
						c.Due = db.MillisOf(due)
						_, err := o.Ingest(context.WithoutCancel(ctx), []outbox.NewCallback{c}, c.Due)
						if err != nil {
							b.Error(err)
						}
						mu.Lock()
						took[i] = append(took[i], time.Since(due))
						mu.Unlock()
					})
				}
			}
			all.Wait()
		}
		for i := range took {
			ctx, cancel := context.WithTimeout(ctx, slice)
			var purging sync.WaitGroup
			if purges(i) {
				purging.Go(func() {
					for ctx.Err() == nil {
						done, err := p.Step(context.WithoutCancel(ctx), db.MillisOf(time.Now())+200*day)
						if err != nil || done.Ended {
							b.Errorf("the purge has ended: %v; take more rows", err)
							return
						}
						gone += done.Purged
						time.Sleep(done.Wait)
					}
				})
			}
			load(ctx, i)
			cancel()
			purging.Wait()
			if b.Failed() {
				return // a purge that has ended waits for an hour
			}
		}
		var p99 [2][]float64 // ms, without and with a purge
		for i, list := range took {
			slices.Sort(list)
			kind := 0
			if purges(i) {
				kind = 1
			}
			p99[kind] = append(p99[kind], float64(list[len(list)*99/100].Microseconds())/1000)
		}
		quotients := make([]float64, pairs)
		for i := range quotients {
			quotients[i] = p99[1][i] / p99[0][i]
		}
		slices.Sort(quotients)
		b.Logf("p99 in ms of slices without a purge %.1f, with one %.1f; with/without of the pairs, sorted: %.2f", p99[0], p99[1], quotients)
		for kind, name := range []string{"ms-p99-alone", "ms-p99-beside"} {
			slices.Sort(p99[kind])
			b.ReportMetric(median(p99[kind]), name)
		}
		b.ReportMetric(median(quotients), "beside/alone")
		b.ReportMetric(quotients[0], "beside/alone-least")
		b.ReportMetric(quotients[pairs-1], "beside/alone-most")
		b.ReportMetric(float64(gone)/(slice.Seconds()*pairs), "purged/s")
	})
}
