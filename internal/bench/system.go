package bench

import (
	"context"
	"fmt"
	runtimemetrics "runtime/metrics"
	"time"

	"countersign/internal/db"
)

const (
	// ingestBatch is how many deposits are posted in one call.
	ingestBatch = 100
	// ingestAhead is how many deposits may be posted and not settled: enough to keep
	// the service busy, too few to be a backlog.
	ingestAhead = 1500
	// roundTime is about how long a round of a rate takes, and boundTime how long RSA
	// alone is measured between two. Both are short, because a shared machine is faster
	// in one second than in another: a round is compared with what RSA did right
	// before and after it.
	roundTime = 1500 * time.Millisecond
	boundTime = 400 * time.Millisecond
)

// rate is what one round gave. All but the first are means of one callback.
type rate struct {
	perSecond float64
	cpu       float64 // seconds of processor
	bytes     float64 // allocated
	objects   float64 // allocated
	written   float64 // bytes to disk
	perClaim  float64 // callbacks that one claim found
	perSettle float64 // callbacks that one transaction settled
}

// round sends n deposits through everything, from the first call of the API to the
// last settlement.
func (r *rig) round(ctx context.Context, set string, n int) (rate, error) {
	heap := []runtimemetrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/allocs:objects"}}
	runtimemetrics.Read(heap)
	bytes, objects := heap[0].Value.Uint64(), heap[1].Value.Uint64()
	var claims, settles int64
	if r.outbox != nil {
		claims, settles = r.outbox.claims.Load(), r.outbox.settles.Load()
	}
	before := r.tracker.accepted.Load()
	start, cpu, disk := time.Now(), processorTime(), diskWritten()
	for from := 0; from < n; from += ingestBatch {
		batch := min(ingestBatch, n-from)
		if err := r.deposits(ctx, set, from, batch); err != nil {
			return rate{}, err
		}
		if err := r.tracker.wait(ctx, before+int64(from+batch-ingestAhead)); err != nil {
			return rate{}, err
		}
	}
	if err := r.tracker.wait(ctx, before+int64(n)); err != nil {
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

// rounds are rates, each with the RSA bound measured before and after it.
type rounds struct {
	rates     []rate
	bounds    []rsaBound
	callbacks int // in all rounds
}

// measure does rounds of n callbacks. With n 0 it finds a number that takes about
// roundTime.
func (r *rig) measure(ctx context.Context, times, n int) (rounds, error) {
	var all rounds
	long := min(boundTime, r.b.short())
	before, err := r.b.load.rsaFor(ctx, long)
	if err != nil {
		return all, err
	}
	if n == 0 {
		n = max(200, int(before.perSecond*roundTime.Seconds()))
	}
	for i := range times {
		r.b.progress("%d merchants: round %d of %d, %d callbacks", len(r.ids), i+1, times, n)
		got, err := r.round(ctx, fmt.Sprint("round", i), n)
		if err != nil {
			return all, err
		}
		after, err := r.b.load.rsaFor(ctx, long)
		if err != nil {
			return all, err
		}
		all.rates, all.bounds = append(all.rates, got), append(all.bounds, before.halfway(after))
		all.callbacks += n
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

// addRate keeps the median rate, and how much of the RSA bound it is.
func (r *Report) addRate(suite, name string, all rounds) {
	f := r.addRounds(suite, name, "callbacks/s", all.of(func(r rate, _ rsaBound) float64 { return r.perSecond }))
	f.against("that RSA alone allows", medianOf(all.of(func(_ rate, b rsaBound) float64 { return b.perSecond })))
	// The ratio is taken for each round, and then the median of the ratios: the
	// medians of rates and of bounds would be from different times.
	ratios := all.of(func(r rate, b rsaBound) float64 { return r.perSecond / b.perSecond })
	f.Ratio, f.RatioLow, f.RatioHigh = medianOf(ratios), quantile(ratios, 0.25), quantile(ratios, 0.75)
	oneEach := medianOf(all.of(func(r rate, b rsaBound) float64 { return r.perSecond / b.oneEach }))
	f.note("%s %% of RSA with one operation at once on each core", number(100*oneEach))
	r.listen(all.of(func(_ rate, b rsaBound) float64 { return b.perSecond }))
}

// loud is the largest distance between the quartiles of the RSA bound, as a part of its
// median, at which the machine still counts as quiet.
const loud = 0.1

// listen detects other work on the machine: nothing else changes the speed of RSA alone.
func (r *Report) listen(bounds []float64) {
	low, high := quantile(bounds, 0.25), quantile(bounds, 0.75)
	if moved := (high - low) / medianOf(bounds); moved > loud && moved > r.Moved {
		r.Moved = moved
	}
}

// system measures how many deposits go through the whole system, and what one
// costs.
func (b *Bench) system(ctx context.Context) error {
	const suite = "system"
	return b.withRig(ctx, 1, func(r *rig) error {
		before, err := r.size(ctx)
		if err != nil {
			return err
		}
		all, err := r.measure(ctx, b.Rounds, b.Callbacks)
		if err != nil {
			return err
		}
		after, err := r.size(ctx)
		if err != nil {
			return err
		}
		b.report.addRate(suite, "deposits, API to settled", all)
		if b.Service != nil {
			return nil // what one costs there is not known here
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
		kept := b.report.add(suite, "kept in the service's database", "KB a callback", (after-before)/1000/float64(all.callbacks))
		b.report.Needs = &Needs{PerSecond: b.SizeFor, Cores: b.SizeFor * cpu.Value / 1000, GBADay: b.SizeFor * kept.Value * 86_400 / 1e6}
		b.report.addRounds(suite, "callbacks in a claim", "", all.of(func(r rate, _ rsaBound) float64 { return r.perClaim }))
		b.report.addRounds(suite, "callbacks in a settlement", "", all.of(func(r rate, _ rsaBound) float64 { return r.perSettle }))
		return nil
	})
}

// size is how many bytes the service's database takes, 0 if it is elsewhere.
func (r *rig) size(ctx context.Context) (bytes float64, err error) {
	if r.service == nil {
		return 0, nil
	}
	look := "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
	if r.b.DB != "" {
		look = "SELECT pg_database_size(current_database())::float8"
	}
	_, err = db.One(ctx, r.service.Outbox(), look, nil, &bytes)
	return bytes, err
}

// merchants measures the same rate with each of several numbers of merchants.
func (b *Bench) merchants(ctx context.Context) error {
	for _, n := range b.Merchants {
		b.progress("registering %d merchants", n)
		err := b.withRig(ctx, n, func(r *rig) error {
			all, err := r.measure(ctx, min(5, b.Rounds), b.Callbacks)
			if err != nil {
				return err
			}
			b.report.addRate("merchants", fmt.Sprintf("%d merchants", n), all)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%d merchants: %w", n, err)
		}
	}
	return nil
}
