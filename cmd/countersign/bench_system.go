package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	runtimemetrics "runtime/metrics"
	"runtime/pprof"
	"time"

	"countersign/client"
)

const (
	// ingestBatch is how many deposits the load generator posts at once, and
	// ingestAhead how many it is ahead of what has settled: enough that the
	// service never lacks work, too few to be a backlog.
	ingestBatch = 100
	ingestAhead = 1500
	// roundTime is how long a round of a rate takes by default.
	roundTime = 6 * time.Second
)

// rate is what one round gave.
type rate struct {
	perSecond float64
	cpu       float64 // seconds each
	bytes     float64 // allocated each
	objects   float64
	written   float64 // bytes, to disk, each
	perClaim  float64
	perSettle float64
}

// round sends n deposits through everything, from the first request to the API
// to the last settlement.
func (r *benchRig) round(ctx context.Context, set string, n int) (rate, error) {
	heap := []runtimemetrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/allocs:objects"}}
	runtimemetrics.Read(heap)
	bytes, objects := heap[0].Value.Uint64(), heap[1].Value.Uint64()
	var claims, settles int64
	if r.outbox != nil {
		claims, settles = r.outbox.claims.Load(), r.outbox.settles.Load()
	}
	before := r.settled.accepted.Load()
	start, cpu, disk := time.Now(), processorTime(), diskWritten()
	for from := 0; from < n; from += ingestBatch {
		list := make([]client.NewDeposit, min(ingestBatch, n-from))
		for i := range list {
			list[i] = r.b.load.deposit(r.ids[(from+i)%len(r.ids)], r.name+set, from+i)
		}
		if _, err := r.api.AddDeposits(ctx, list...); err != nil {
			return rate{}, err
		}
		if err := r.settled.wait(ctx, before+int64(from+len(list)-ingestAhead)); err != nil {
			return rate{}, err
		}
	}
	if err := r.settled.wait(ctx, before+int64(n)); err != nil {
		return rate{}, err
	}
	took, used, written := time.Since(start), processorTime()-cpu, diskWritten()-disk
	runtimemetrics.Read(heap)
	each := float64(n)
	got := rate{
		perSecond: each / took.Seconds(), cpu: used.Seconds() / each,
		bytes: float64(heap[0].Value.Uint64()-bytes) / each, objects: float64(heap[1].Value.Uint64()-objects) / each,
		written: float64(written) / each,
	}
	if r.outbox != nil {
		got.perClaim = each / float64(max(1, r.outbox.claims.Load()-claims))
		got.perSettle = each / float64(max(1, r.outbox.settles.Load()-settles))
	}
	return got, nil
}

// rounds are rates with the bounds that were measured around each of them, so
// that the mood of a shared machine meets both alike.
type rounds struct {
	rates  []rate
	bounds []rsaBound
}

func (r *benchRig) measure(ctx context.Context, times, n int, profile string) (rounds, error) {
	var all rounds
	before, err := r.b.load.rsaFor(ctx, r.b.boundTime())
	if err != nil {
		return all, err
	}
	if n == 0 {
		n = max(500, int(before.perSecond*roundTime.Seconds()))
	}
	for i := range times {
		r.b.progress("%d merchants: round %d of %d, %d callbacks", len(r.ids), i+1, times, n)
		stop := func() error { return nil }
		if profile != "" && i == 0 {
			if stop, err = cpuProfile(profile); err != nil {
				return all, err
			}
		}
		got, err := r.round(ctx, fmt.Sprint("round", i), n)
		if err = errors.Join(err, stop()); err != nil {
			return all, err
		}
		after, err := r.b.load.rsaFor(ctx, r.b.boundTime())
		if err != nil {
			return all, err
		}
		all.rates, all.bounds = append(all.rates, got), append(all.bounds, before.halfway(after))
		before = after
	}
	return all, nil
}

// of gives one number of every round.
func (all rounds) of(f func(rate, rsaBound) float64) []float64 {
	list := make([]float64, len(all.rates))
	for i := range list {
		list[i] = f(all.rates[i], all.bounds[i])
	}
	return list
}

// addRate keeps the rate and how much of the bound it is, round by round.
func (r *benchReport) addRate(suite, name string, all rounds) {
	f := r.addRounds(suite, name, "callbacks/s", all.of(func(r rate, _ rsaBound) float64 { return r.perSecond }))
	f.against("that RSA alone allows", medianOf(all.of(func(_ rate, b rsaBound) float64 { return b.perSecond })))
	shares := all.of(func(r rate, b rsaBound) float64 { return r.perSecond / b.perSecond })
	f.Ratio = medianOf(shares) // of rounds, each with the bound of its own time
	oneEach := medianOf(all.of(func(r rate, b rsaBound) float64 { return r.perSecond / b.oneEach }))
	f.note("%s %% of RSA with one operation at once on each core", number(100*oneEach))
}

func (b *bench) system(ctx context.Context) (err error) {
	const suite = "system"
	r, err := b.newRig(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	all, err := r.measure(ctx, b.Rounds, b.Callbacks, b.CPUProfile)
	if err != nil {
		return err
	}
	b.report.addRate(suite, "deposits, API to settled", all)
	if b.API != "" {
		return nil
	}
	cpu := b.report.addRounds(suite, "processor, both ends and the load", "ms a callback",
		all.of(func(r rate, _ rsaBound) float64 { return 1000 * r.cpu }))
	if b.DB != "" {
		cpu.note("without the database's")
	}
	b.report.addRounds(suite, "of that in RSA", "%", all.of(func(r rate, b rsaBound) float64 { return 100 * b.cpu / max(r.cpu, 1e-9) }))
	b.report.addRounds(suite, "allocated", "KB a callback", all.of(func(r rate, _ rsaBound) float64 { return r.bytes / 1000 }))
	b.report.addRounds(suite, "allocations", "a callback", all.of(func(r rate, _ rsaBound) float64 { return r.objects }))
	if written := all.of(func(r rate, _ rsaBound) float64 { return r.written / 1000 }); b.DB == "" && medianOf(written) > 0 {
		b.report.addRounds(suite, "written to disk", "KB a callback", written)
	}
	b.report.addRounds(suite, "callbacks in a claim", "", all.of(func(r rate, _ rsaBound) float64 { return r.perClaim }))
	b.report.addRounds(suite, "callbacks in a settlement", "", all.of(func(r rate, _ rsaBound) float64 { return r.perSettle }))
	return nil
}

// merchants measures the same rate with more and more of them.
func (b *bench) merchants(ctx context.Context) error {
	for _, n := range b.Merchants {
		if err := b.manyMerchants(ctx, n); err != nil {
			return fmt.Errorf("%d merchants: %w", n, err)
		}
	}
	return nil
}

func (b *bench) manyMerchants(ctx context.Context, n int) (err error) {
	b.progress("registering %d merchants", n)
	r, err := b.newRig(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	all, err := r.measure(ctx, min(3, b.Rounds), b.Callbacks, "")
	if err != nil {
		return err
	}
	b.report.addRate("merchants", fmt.Sprintf("%d merchants", n), all)
	return nil
}

func cpuProfile(path string) (stop func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

func writeAllocProfile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
