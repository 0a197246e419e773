package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// pricesTime is about how long the suite prices sends callbacks: a profile has a
// hundred samples a second of processor.
const pricesTime = 15 * time.Second

// prices says what a callback costs by part: a profile gives the shares, and the
// system's count of the whole process their sum.
func (b *Bench) prices(ctx context.Context) error {
	return b.withRig(ctx, 1, func(r *rig) error {
		n := b.Callbacks
		if n == 0 {
			bound, err := b.load.rsaFor(ctx, min(boundTime, b.short()))
			if err != nil {
				return err
			}
			n = int(bound.perSecond * pricesTime.Seconds())
		}
		var server serverTime
		if b.DB != "" {
			var err error
			if server, err = newServerTime(ctx, r.service.Outbox()); err != nil {
				return err
			}
		}
		b.progress("prices: %d callbacks", n)
		got, times, memory, err := r.profiled(ctx, n)
		if err != nil {
			return err
		}
		b.addPrices("µs a callback", "", 1e6*got.cpu, times)
		b.addPrices("bytes a callback", " allocated", got.bytes, memory)
		if b.DB != "" {
			return b.addServerTime(server, n)
		}
		if got.written > 0 {
			b.report.add(suitePrices, "written to disk", "bytes a callback", got.written)
		}
		return nil
	})
}

const suitePrices = "prices"

// profiled is a round, with its processor time and its memory by part.
func (r *rig) profiled(ctx context.Context, n int) (got rate, times, memory map[part]float64, err error) {
	before, err := allocated()
	if err != nil {
		return got, nil, nil, err
	}
	var cpu bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		return got, nil, nil, err
	}
	got, err = r.round(ctx, suitePrices, n)
	pprof.StopCPUProfile()
	if err != nil {
		return got, nil, nil, err
	}
	after, err := allocated()
	if err != nil {
		return got, nil, nil, err
	}
	before.Scale(-1)
	during, err := profile.Merge([]*profile.Profile{after, before})
	if err != nil {
		return got, nil, nil, err
	}
	timed, err := profile.Parse(&cpu)
	if err != nil {
		return got, nil, nil, err
	}
	if times, err = partsOf(timed, "cpu"); err == nil {
		memory, err = partsOf(during, "alloc_space")
	}
	return got, times, memory, err
}

// addPrices divides what one callback costs into parts, the ends in the order of their
// rules, the largest part first.
func (b *Bench) addPrices(unit, suffix string, each float64, parts map[part]float64) {
	whole := 0.0
	for _, v := range parts {
		whole += v
	}
	ends := []string{endService, endMerchant, endLoad, endRuntime}
	order := slices.SortedFunc(maps.Keys(parts), func(x, y part) int {
		return cmp.Or(cmp.Compare(slices.Index(ends, x.end), slices.Index(ends, y.end)), -cmp.Compare(parts[x], parts[y]))
	})
	b.report.add(suitePrices, "all"+suffix, unit, each)
	for _, p := range order {
		if share := parts[p] / whole; share > 0 {
			b.report.add(suitePrices, fmt.Sprintf("%s: %s%s", p.end, p.what, suffix), unit, each*share).note("%s %%", number(100*share))
		}
	}
}

// addServerTime adds what the database's own processes used.
func (b *Bench) addServerTime(server serverTime, n int) error {
	used, err := server.since()
	if err != nil || server.postmaster == 0 {
		return err
	}
	b.report.add(suitePrices, "PostgreSQL's own processes", "µs a callback", us(used)/float64(n))
	return nil
}
