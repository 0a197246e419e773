package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies is a distribution of the times from when a callback was due to be sent to
// when it was settled. The time at which it really was sent does not count: a system
// that stalls would delay that too, and hide the stall.
type latencies struct {
	mu      sync.Mutex
	hist    *hdrhistogram.Histogram // microseconds
	started map[string]time.Time
	open    sync.WaitGroup // callbacks that have not ended
	failed  error
}

func newLatencies() *latencies {
	return &latencies{hist: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3), started: map[string]time.Time{}}
}

func (l *latencies) begin(key string, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started[key] = due
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

// ms is a percentile in milliseconds.
func (l *latencies) ms(percentile float64) float64 {
	return float64(l.hist.ValueAtQuantile(percentile)) / 1000
}

// handOver hands over callback n of an open loop and gives its key, or "" where
// it is not to be timed.
type handOver func(ctx context.Context, n int) (key string, err error)

// openLoop hands over rate callbacks a second for a time, each when it is due,
// whether or not those before have settled. It returns when all that are timed
// have settled.
func (r *rig) openLoop(ctx context.Context, rate float64, long time.Duration, hand handOver) (*latencies, error) {
	l := newLatencies()
	r.tracker.measuring(1)
	defer r.tracker.measuring(-1)
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
			r.tracker.begin(l, key, due)
		}()
		if i%50 == 0 {
			r.b.progress("latency at %v/s: %d of %d", rate, i, n)
		}
	}
	if err := waitFor(ctx, &l.open); err != nil {
		return nil, err
	}
	return l, errors.Join(failed, l.failed)
}

// waitFor waits for wg, for patience at most.
func waitFor(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("some callbacks did not settle within %v", patience)
	}
}

// quantiles are the percentiles of the table.
var quantiles = []struct {
	name string
	at   float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}}

// addLatencies keeps a distribution: a figure for each quantile.
func (r *Report) addLatencies(suite, name string, l *latencies) {
	for _, q := range quantiles {
		r.add(suite, name+", "+q.name, "ms", l.ms(q.at))
	}
	r.Figures[len(r.Figures)-1].note("of %d", l.hist.TotalCount())
}

// latency measures single deposits at a fixed rate.
func (b *Bench) latency(ctx context.Context) error {
	return b.withRig(ctx, 1, func(r *rig) error {
		l, err := r.openLoop(ctx, b.Rate, b.For, func(ctx context.Context, n int) (string, error) {
			return r.oneDeposit(ctx, r.ids[0], "timed", n)
		})
		if err != nil {
			return err
		}
		what := "due to settled"
		if r.service == nil {
			what = "due to taken by the merchant"
		}
		b.report.addLatencies("latency", fmt.Sprintf("deposits at %s/s, %s", number(b.Rate), what), l)
		return nil
	})
}

// oneDeposit posts deposit n of a set for a merchant and gives its key.
func (r *rig) oneDeposit(ctx context.Context, merchant, set string, n int) (key string, err error) {
	got, err := r.api.AddDeposits(ctx, r.b.load.deposit(merchant, r.name+set, n))
	if err != nil {
		return "", err
	}
	return r.key(got[0]), nil
}
