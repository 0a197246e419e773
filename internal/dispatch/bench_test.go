//go:build unix

package dispatch

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/envelope"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// BenchmarkLoop sends deposits to an honest merchant in the same process and
// compares with what the RSA operations of both ends cost alone, on the same
// cores, in the same run.
func BenchmarkLoop(b *testing.B) {
	for _, bits := range []int{1024, 2048} {
		b.Run(fmt.Sprintf("sqlite/%d", bits), func(b *testing.B) {
			benchmarkLoop(b, openStore(b, dbtest.SQLite(b)), bits)
		})
		b.Run(fmt.Sprintf("postgres/%d", bits), func(b *testing.B) {
			benchmarkLoop(b, openStore(b, dbtest.Postgres(b)), bits)
		})
	}
}

func benchmarkLoop(b *testing.B, s *outbox.Outbox, bits int) {
	pair := mustKey(bits)
	m := newTestMerchant(pair)
	server := httptest.NewServer(m)
	defer server.Close()
	row := testStoreMerchant("m1", pair, server.URL)
	row.Concurrency = 64
	if _, err := s.CreateMerchant(b.Context(), row, db.MillisOf(time.Now())); err != nil {
		b.Fatal(err)
	}
	// The machine may be shared: bound and loop take turns, and the median of
	// the rounds counts.
	const n, rounds = 1500, 5
	var rates, bounds, shares, efficiency []float64
	var o *countingObserver
	total := 0
	for b.Loop() {
		before := rsaBound(b, pair, m)
		for range rounds {
			ingest(b, s, total, n)
			start, cpu := time.Now(), cpuTime()
			o = drain(b, s, n)
			rate := n / time.Since(start).Seconds()
			each := (cpuTime() - cpu) / n
			total += n
			after := rsaBound(b, pair, m)
			limit := (before.perSecond + after.perSecond) / 2
			efficiency = append(efficiency, 100*(before.cpu+after.cpu)/2/each)
			before = after
			rates, bounds, shares = append(rates, rate), append(bounds, limit), append(shares, 100*rate/limit)
		}
	}
	b.ReportMetric(median(rates), "callbacks/s")
	b.ReportMetric(median(bounds), "bound/s")
	b.ReportMetric(median(shares), "%bound")
	b.ReportMetric(median(efficiency), "%cpu-in-RSA")
	b.ReportMetric(float64(n)/float64(o.claims), "per-claim")
	b.ReportMetric(float64(n)/float64(o.settles), "per-settle")
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func ingest(b *testing.B, s *outbox.Outbox, from, n int) { ingestFor(b, s, "m1", from, n) }

func ingestFor(b *testing.B, s *outbox.Outbox, merchant string, from, n int) {
	for start := from; start < from+n; start += 1000 {
		batch := make([]outbox.NewCallback, 0, 1000)
		for i := start; i < min(start+1000, from+n); i++ {
			c := depositPayload(b, i)
			c.Merchant = merchant
			batch = append(batch, c)
		}
		if _, err := s.Ingest(b.Context(), batch, db.MillisOf(time.Now())); err != nil {
			b.Fatal(err)
		}
	}
}

// drain runs a Dispatcher, whose pair of the signed link may be given, until n callbacks are accepted.
func drain(b *testing.B, s *outbox.Outbox, n int, sign ...*envelope.SigningKey) *countingObserver {
	o := &countingObserver{want: n, all: make(chan struct{})}
	config := Config{Outbox: s, Node: "bench", TargetRules: TargetRules{AllowHTTP: true}, Observer: o}
	if len(sign) > 0 {
		config.Sign = sign[0]
	}
	d, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { _ = d.Run(ctx); close(done) }()
	select {
	case <-o.all:
	case <-time.After(2 * time.Minute):
		b.Error("not all accepted")
	}
	cancel()
	<-done
	return o
}

type countingObserver struct {
	noObserver
	mu       sync.Mutex
	want     int
	accepted int
	claims   int
	settles  int
	all      chan struct{}
}

func (o *countingObserver) Claimed(countersign.Lane, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims++
}

func (o *countingObserver) Settled(int, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settles++
}

func (o *countingObserver) Attempt(_ countersign.Lane, _ countersign.Type, result client.AttemptResult, _ client.Reason, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if result == client.AttemptAccepted {
		if o.accepted++; o.accepted == o.want {
			close(o.all)
		}
	}
}

// rsaBound is how many callbacks a second all cores could do if nothing but the
// RSA operations of both ends were needed: seal and open the request, seal and
// open the answer.
func rsaBound(b *testing.B, pair *envelope.Key, m *testMerchant) bound {
	b.Helper()
	c := depositPayload(b, 0)
	plain, _, err := countersign.Bind(c.Payload, [6]byte{1, 2, 3})
	if err != nil {
		b.Fatal(err)
	}
	cb, err := countersign.ParseCallback(plain, countersign.ParseOptions{})
	if err != nil {
		b.Fatal(err)
	}
	answer, err := m.answer(cb)
	if err != nil {
		b.Fatal(err)
	}
	public := pair.Public()
	each := 400 * 1024 / pair.Bits()
	cores := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	start, cpu := time.Now(), cpuTime()
	for range cores {
		wg.Go(func() {
			for range each {
				sealed, err1 := envelope.Seal(pair, 0, plain)
				opened, err2 := envelope.Open(public, 0, sealed)
				back, err3 := envelope.Seal(public, 0, answer)
				got, err4 := envelope.Open(pair, 0, back)
				if err1 != nil || err2 != nil || err3 != nil || err4 != nil || !slices.Equal(opened, plain) || !slices.Equal(got, answer) {
					b.Error("RSA")
					return
				}
			}
		})
	}
	wg.Wait()
	n := float64(cores * each)
	return bound{n / time.Since(start).Seconds(), (cpuTime() - cpu) / n}
}

// bound is what the RSA operations of one callback cost at both ends.
type bound struct {
	perSecond float64
	cpu       float64 // seconds each
}

// cpuTime is how many seconds of processor time this process has used. Unlike
// the clock it does not mind what else the machine does.
func cpuTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// BenchmarkLatency reports how long a deposit takes from ingest to settled, at a
// gentle fifty a second.
func BenchmarkLatency(b *testing.B) {
	s := openStore(b, dbtest.SQLite(b))
	m := newTestMerchant(testPair())
	server := httptest.NewServer(m)
	defer server.Close()
	row := testStoreMerchant("m1", testPair(), server.URL)
	if _, err := s.CreateMerchant(b.Context(), row, db.MillisOf(time.Now())); err != nil {
		b.Fatal(err)
	}
	settled := make(chan struct{}, 1)
	o := &signalObserver{settled: settled}
	d, err := New(Config{Outbox: s, Node: "bench", TargetRules: TargetRules{AllowHTTP: true}, Observer: o})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { _ = d.Run(ctx); close(done) }()
	var took []time.Duration
	i := 0
	for b.Loop() {
		c := depositPayload(b, i)
		c.Merchant = "m1"
		i++
		start := time.Now()
		if _, err := s.Ingest(ctx, []outbox.NewCallback{c}, db.MillisOf(start)); err != nil {
			b.Fatal(err)
		}
		<-settled
		took = append(took, time.Since(start))
		time.Sleep(20*time.Millisecond - time.Since(start))
	}
	cancel()
	<-done
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(0, "ns/op")
}

type signalObserver struct {
	noObserver
	settled chan struct{}
}

func (o *signalObserver) Attempt(_ countersign.Lane, _ countersign.Type, result client.AttemptResult, _ client.Reason, _ time.Duration) {
	if result == client.AttemptAccepted {
		o.settled <- struct{}{}
	}
}
