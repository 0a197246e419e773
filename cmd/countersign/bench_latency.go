package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies is a distribution of the times from when a callback was to be
// handed over to when it was settled. Counting from the schedule, and not from
// when the request got away, keeps a system that stalls from hiding it.
type latencies struct {
	mu      sync.Mutex
	hist    *hdrhistogram.Histogram // microseconds
	started map[string]time.Time
	open    sync.WaitGroup
	failed  error
}

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3), started: map[string]time.Time{}}
}

func (l *latencies) end(key string, at time.Time) {
	l.mu.Lock()
	took := at.Sub(l.started[key])
	delete(l.started, key)
	if err := l.hist.RecordValue(max(1, took.Microseconds())); err != nil && l.failed == nil {
		l.failed = err
	}
	l.mu.Unlock()
	l.open.Done()
}

// begin tells the sink that the callback key was due to be handed over at a time.
func (s *settledSink) begin(l *latencies, key string, at time.Time) {
	l.mu.Lock()
	l.started[key] = at
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended, ok := s.early[key]; ok {
		delete(s.early, key)
		l.end(key, ended)
		return
	}
	s.clocks[key] = l
}

// time counts distributions that are being taken, so that ends without a begin
// are remembered only then.
func (s *settledSink) time(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timing += n; s.timing == 0 {
		clear(s.early)
	}
}

// arrival hands over callback n of an open loop and gives its key, or "" where
// it is not to be timed.
type arrival func(ctx context.Context, n int) (key string, err error)

// openLoop hands over rate callbacks a second for a time, each when it is due
// whatever became of those before, and waits until all that are timed have
// settled.
func (r *benchRig) openLoop(ctx context.Context, rate float64, long time.Duration, hand arrival) (*latencies, error) {
	l := newLatencies()
	r.settled.time(1)
	defer r.settled.time(-1)
	n := max(1, int(rate*long.Seconds()))
	start := time.Now().Add(10 * time.Millisecond)
	var mu sync.Mutex
	var failed error
	for i := range n {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		l.open.Add(1)
		go func() {
			key, err := hand(ctx, i)
			if err != nil || key == "" {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
				l.open.Done()
				return
			}
			r.settled.begin(l, key, due)
		}()
		if i%50 == 0 {
			r.b.progress("latency at %v/s: %d of %d", rate, i, n)
		}
	}
	if err := waitFor(ctx, &l.open, benchPatience); err != nil {
		return nil, err
	}
	return l, errors.Join(failed, l.failed)
}

func waitFor(ctx context.Context, wg *sync.WaitGroup, patience time.Duration) error {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("not all callbacks settled within %v", patience)
	}
}

// ms is a percentile in milliseconds.
func (l *latencies) ms(percentile float64) float64 {
	return float64(l.hist.ValueAtQuantile(percentile)) / 1000
}

// quantiles are those of the table.
var quantiles = []struct {
	name string
	at   float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}}

// addLatencies keeps a distribution: a figure for each quantile, and its curve.
func (r *benchReport) addLatencies(suite, name string, l *latencies) {
	for _, q := range quantiles {
		r.add(suite, name+", "+q.name, "ms", l.ms(q.at))
	}
	r.Figures[len(r.Figures)-1].note("of %d", l.hist.TotalCount())
	curve := latencyCurve{Suite: suite, Name: name, Count: l.hist.TotalCount()}
	for _, p := range []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99, 100} {
		curve.Points = append(curve.Points, latencyPoint{p, l.ms(p)})
	}
	r.Curves = append(r.Curves, curve)
}

// latency measures single deposits at a fixed rate.
func (b *bench) latency(ctx context.Context) (err error) {
	r, err := b.newRig(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	l, err := r.openLoop(ctx, b.Rate, b.For, r.oneDeposit("timed"))
	if err != nil {
		return err
	}
	b.report.addLatencies("latency", fmt.Sprintf("deposits at %s/s, %s", number(b.Rate), r.what()), l)
	return nil
}

// what says between what latency is taken.
func (r *benchRig) what() string {
	if r.service == nil {
		return "due to taken by the merchant"
	}
	return "due to settled"
}

// oneDeposit hands over single deposits, the merchants in turn.
func (r *benchRig) oneDeposit(set string) arrival {
	return func(ctx context.Context, n int) (string, error) {
		got, err := r.api.AddDeposits(ctx, r.b.load.deposit(r.ids[n%len(r.ids)], r.name+set, n))
		if err != nil {
			return "", err
		}
		return r.key(got[0]), nil
	}
}

// warmUp makes the first connections, statements and pages.
func (r *benchRig) warmUp(ctx context.Context) error {
	n := max(20, min(200, r.b.Callbacks))
	before := r.settled.accepted.Load()
	if err := r.deposits(ctx, "warm", n, n); err != nil {
		return err
	}
	return r.settled.wait(ctx, before+int64(n))
}
