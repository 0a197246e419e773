package outbox

import (
	"countersign"
	"countersign/client"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

func eachDialect(b *testing.B, fn func(b *testing.B, s *Outbox)) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) { fn(b, openAt(b, d.url(b))) })
	}
}

// foundBy returns a deposit the user and the address by which people search, both spread.
func foundBy(d NewCallback, n int) NewCallback {
	h := uint64(n) * 0x9e3779b97f4a7c15
	d.TenantUserID, d.Address = fmt.Sprintf("user-%06x", h>>40), fmt.Sprintf("0x%040x", h)
	return d
}

// One batch of 1,000 deposits, until it is durable.
func BenchmarkIngestBatch(b *testing.B) {
	eachDialect(b, func(b *testing.B, s *Outbox) {
		ids := addMerchants(b, s, 10, nil)
		n := 0
		for b.Loop() {
			items := make([]NewCallback, 1000)
			for i := range items {
				n++
				items[i] = foundBy(deposit(ids[i%len(ids)], fmt.Sprintf("track-%d-%d", i, n), 1), n)
			}
			if _, err := s.Ingest(ctx, items, 1000); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/batch")
	})
}

// Single deposits from 16 callers, each until it is durable.
func BenchmarkIngestSingle(b *testing.B) {
	eachDialect(b, func(b *testing.B, s *Outbox) {
		ids := addMerchants(b, s, 10, nil)
		var n atomic.Int64
		b.SetParallelism(8) // of two cores
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := n.Add(1)
				if _, err := s.Ingest(ctx, []NewCallback{foundBy(deposit(ids[i%10], fmt.Sprint("track-", i), 1), int(i))}, 1000); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "inserts/s")
	})
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
	claimed, err := s.Claim(ctx, ClaimRequest{Node: "n1", Now: now, LeaseUntil: now + 60_000, Max: most})
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

// Callbacks claimed and settled in batches of 256, of 50 merchants; and one at
// a time, of one merchant.
func BenchmarkClaimSettle(b *testing.B) {
	for _, c := range []struct{ merchants, batch int }{{50, 256}, {500, 256}, {1, 1}} {
		b.Run(fmt.Sprintf("merchants=%d/batch=%d", c.merchants, c.batch), func(b *testing.B) {
			eachDialect(b, func(b *testing.B, s *Outbox) {
				ids := addMerchants(b, s, c.merchants, nil)
				b.ResetTimer()
				settled, now, round := 0, db.Millis(2000), 0
				for settled < b.N {
					b.StopTimer()
					round++
					n := min(b.N-settled, 20_000)
					fill(b, s, ids, fmt.Sprint("round", round), n)
					b.StartTimer()
					for left := n; left > 0; now++ {
						left -= work(b, s, c.batch, now)
					}
					settled += n
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
			})
		})
	}
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

// The time of a claim of 64 with 100,000 due, of one merchant and of 100.
func BenchmarkClaimPending(b *testing.B) {
	const due = 100_000
	for _, merchants := range []int{1, 100} {
		b.Run(fmt.Sprintf("merchants=%d", merchants), func(b *testing.B) {
			eachDialect(b, func(b *testing.B, s *Outbox) {
				ids := addMerchants(b, s, merchants, nil)
				fill(b, s, ids, "due", due)
				var took []time.Duration
				now := db.Millis(2000)
				for b.Loop() {
					now++
					start := time.Now()
					claimed, err := s.Claim(ctx, ClaimRequest{Node: "n1", Now: now, LeaseUntil: now + 1000, Max: 64})
					took = append(took, time.Since(start))
					b.StopTimer()
					if err != nil || len(claimed) != 64 {
						b.Fatal(len(claimed), err)
					}
					if err := s.GiveBack(ctx, claimed, now); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/claim-p50")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/claim-p99")
			})
		})
	}
}

// What claiming and settling costs beside COUNTERSIGN_BENCH_ROWS settled rows
// (1,000,000, say), against the same in an empty database. Loading takes long:
// without the variable it is left out.
func BenchmarkBesideSettled(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv("COUNTERSIGN_BENCH_ROWS"))
	if err != nil {
		b.Skip("COUNTERSIGN_BENCH_ROWS is not set")
	}
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			empty, full := openAt(b, d.url(b)), openAt(b, d.url(b))
			ids := addMerchants(b, empty, 50, nil)
			addMerchants(b, full, 50, nil)
			for at := 0; at < count; at += 10_000 {
				items := make([]NewCallback, min(10_000, count-at))
				for i := range items {
					// Names in no order, as those of transactions are.
					items[i] = deposit(ids[i%len(ids)], fmt.Sprintf("old-%x", uint64(at+i)*0x9e3779b97f4a7c15), 1)
				}
				if err := full.FillAccepted(ctx, items, settlementOf(Claimed{}).Attempt, db.Millis(at)); err != nil {
					b.Fatal(err)
				}
			}
			for _, s := range []*Outbox{empty, full} {
				dbtest.Tidy(b, s.Dialect().Shared, s.Exec)
			}
			// Both in turn, so that the machine's mood meets both alike.
			var took [2]time.Duration
			var stats [2]time.Duration
			const each = 10_240
			round, now := 0, db.Millis(2000)
			for b.Loop() {
				round++
				for i, s := range []*Outbox{empty, full} {
					fill(b, s, ids, fmt.Sprint("new", round), each+64*8)
					// What that leaves to be copied is not what is measured.
					for range 8 {
						now++
						work(b, s, 64, now)
					}
					time.Sleep(2 * time.Second)
					start := time.Now()
					for left := each; left > 0; now++ {
						left -= work(b, s, 256, now)
					}
					took[i] += time.Since(start)
					start = time.Now()
					if _, err := s.Stats(ctx); err != nil {
						b.Fatal(err)
					}
					stats[i] += time.Since(start)
				}
			}
			per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(each*round) }
			b.ReportMetric(per(took[0]), "µs/callback-empty")
			b.ReportMetric(per(took[1]), "µs/callback-full")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
			b.ReportMetric(float64(stats[1].Microseconds())/float64(round), "µs/stats-full")
		})
	}
}

// What the audit log costs: deposits are claimed and settled in batches of 256, in turn
// in a database with the log and in one without.
func BenchmarkAudit(b *testing.B) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			without := End()
			without.Keep = nil
			var both [2]*Outbox
			var ids []string
			for i, end := range []db.End{End(), without} {
				opened := must(db.Open(ctx, db.Config{URL: d.url(b), Keys: testKeys}, end))(b)
				b.Cleanup(func() { opened.Close() })
				both[i] = New(opened)
				ids = addMerchants(b, both[i], 50, nil)
			}
			var took [2]time.Duration
			n, now := 0, db.Millis(2000)
			for round := 0; b.Loop(); round++ {
				b.StopTimer()
				for _, s := range both {
					fill(b, s, ids, fmt.Sprint("round", round), 5120)
				}
				b.StartTimer()
				for left := 5120; left > 0; left -= 256 {
					for i, s := range both {
						start := time.Now()
						work(b, s, 256, now)
						took[i] += time.Since(start)
					}
					now++
				}
				n += 5120
			}
			for i, with := range []string{"with", "without"} {
				b.ReportMetric(float64(n)/took[i].Seconds(), with+"/s")
			}
			b.ReportMetric(100*took[1].Seconds()/took[0].Seconds(), "%")
		})
	}
}

// What the audit log costs a withdrawal: the median time of each of its transactions, in
// turn in a database with the log and in one without.
func BenchmarkAuditWithdrawal(b *testing.B) {
	for _, d := range dialects {
		b.Run(d.name, func(b *testing.B) {
			without := End()
			without.Keep = nil
			var both [2]*Outbox
			for i, end := range []db.End{End(), without} {
				opened := must(db.Open(ctx, db.Config{URL: d.url(b), Keys: testKeys}, end))(b)
				b.Cleanup(func() { opened.Close() })
				both[i] = New(opened)
				addMerchants(b, both[i], 1, nil)
			}
			took := map[string][]time.Duration{}
			exchange := &Exchange{Request: strings.Repeat("q", 700), RequestOpened: strings.Repeat("p", 200), Data: strings.Repeat("a", 700), ResponseOpened: strings.Repeat("o", 300)}
			now := db.Millis(2000)
			for n := 0; b.Loop(); n++ {
				now++
				for k := range both {
					s := both[(n+k)%2]
					timed := func(what string, f func()) {
						start := time.Now()
						f()
						key := what + []string{"-with", "-without"}[(n+k)%2]
						took[key] = append(took[key], time.Since(start))
					}
					var w Withdrawal
					timed("create", func() { w, _, _ = s.CreateWithdrawal(ctx, newWithdrawal(fmt.Sprint("w", n), now+100_000, nil), now) })
					claimed := must(s.Claim(ctx, ClaimRequest{Lane: countersign.LaneWithdraw, Node: "n1", Now: now, LeaseUntil: now + 1000, Max: 1}))(b)
					list := []Settlement{answer(claimed[0], countersign.DecisionConfirmed, someDetails(b, "1"))}
					list[0].Exchange = exchange
					timed("settle", func() { must(s.Settle(ctx, list, now))(b) })
					timed("release", func() { must(s.Release(ctx, w.ID, Holder{Claim: "claim", Origin: "core"}, "permit", now))(b) })
				}
			}
			for what, list := range took {
				slices.Sort(list)
				b.ReportMetric(float64(list[len(list)/2].Microseconds()), what+"-µs")
			}
		})
	}
}

// Callbacks claimed and settled in batches of 256, of 50 merchants of which each answer raises an
// alarm.
func BenchmarkSettleAlarms(b *testing.B) {
	eachDialect(b, func(b *testing.B, s *Outbox) {
		ids := addMerchants(b, s, 50, nil)
		b.ResetTimer()
		now := db.Millis(2000)
		for left, round := b.N, 0; left > 0; round++ {
			b.StopTimer()
			n := min(left, 20_000)
			fill(b, s, ids, fmt.Sprint("round", round), n)
			b.StartTimer()
			for left -= n; n > 0; now++ {
				claimed, err := s.Claim(ctx, ClaimRequest{Node: "n1", Now: now, LeaseUntil: now + 60_000, Max: 256})
				if err != nil {
					b.Fatal(err)
				}
				settlements := make([]Settlement, len(claimed))
				for i, c := range claimed {
					settlements[i] = settlementOf(c)
					settlements[i].State, settlements[i].Due, settlements[i].Alarm = client.CallbackRefused, 0, client.AlarmAnswerUnusable
				}
				if _, err := s.Settle(ctx, settlements, now+10); err != nil {
					b.Fatal(err)
				}
				n -= len(claimed)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
	})
}
