package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"countersign/internal/db"
	"countersign/internal/outbox"
)

const (
	ceilingMerchants = 64
	// ceilingWorkers is how many claims and settlements of a node may be under way at
	// once, as many as a node's settlers and its claimer make.
	ceilingWorkers = 2
	// ceilingBatch is how many callbacks a worker claims, and settles in one
	// transaction: as many as a node does while more are due than it can send.
	ceilingBatch = 256
	// ceilingAhead is how many callbacks are kept and not settled.
	ceilingAhead = 8000
)

// ceiling measures what the database alone allows: nodes that keep, claim and settle
// deposits as the service does, without RSA, without HTTP, and without anything to
// send to. No service can be made to leave those out, so these nodes are the outbox
// alone.
func (b *Bench) ceiling(ctx context.Context) error {
	counts := []int{1, 2, 4}
	if b.DB == "" {
		counts = counts[:1] // one process has the database open
	}
	for _, n := range counts {
		if err := b.ceilingOf(ctx, n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

func (b *Bench) ceilingOf(ctx context.Context, n int) (err error) {
	const suite = "ceiling"
	nodes := make([]*bareOutbox, n)
	for i := range nodes {
		// Each node keeps the deposits of merchants of its own and works for those of all.
		if nodes[i], err = b.openOutbox(ctx, fmt.Sprint(suite, i), ceilingMerchants/n); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, nodes[i].close()) }()
	}
	for _, one := range nodes {
		// Opening a node has paused the merchants of those before it.
		if err := one.activate(ctx); err != nil {
			return err
		}
	}
	var server serverTime
	if b.DB != "" {
		if server, err = newServerTime(ctx, nodes[0].outbox); err != nil {
			return err
		}
	}
	b.progress("ceiling: %d nodes", n)
	long := 3 * b.short()
	start, before := time.Now(), processorTime()
	done, err := b.ceilingFor(ctx, nodes, long)
	if err != nil {
		return err
	}
	took, used := time.Since(start), processorTime()-before
	name := fmt.Sprintf("%d nodes", n)
	b.report.add(suite, name, "callbacks/s", float64(done)/took.Seconds()).note("kept, claimed and settled, without RSA and HTTP")
	b.report.add(suite, name+", processor", "µs a callback", us(used)/float64(done))
	if b.DB == "" || server.postmaster == 0 {
		return nil
	}
	served, err := server.since()
	if err != nil {
		return err
	}
	b.report.add(suite, name+", PostgreSQL's processor", "µs a callback", us(served)/float64(done))
	return nil
}

// ceilingFor lets nodes work for about that long and until nothing is left, and gives
// how many callbacks they settled.
func (b *Bench) ceilingFor(ctx context.Context, nodes []*bareOutbox, long time.Duration) (int64, error) {
	var kept, settled atomic.Int64
	var full atomic.Bool
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(nodes)*(ceilingWorkers+1))
	var loading, working sync.WaitGroup
	until := time.Now().Add(long)
	for i, node := range nodes {
		keep := func(rows []outbox.NewCallback) error { return node.keep(ctx, rows) }
		loading.Go(func() {
			for from := 0; time.Now().Before(until) && ctx.Err() == nil; {
				if kept.Load()-settled.Load() > ceilingAhead {
					sleepFor(ctx, time.Millisecond)
					continue
				}
				if err := node.inSteps(b.load, fmt.Sprint("ceiling-", i), from, from+ingestBatch, ingestBatch, keep); err != nil {
					errs <- err
					cancel()
					return
				}
				from += ingestBatch
				kept.Add(ingestBatch)
			}
		})
		for range ceilingWorkers {
			working.Go(func() {
				for ctx.Err() == nil && !(full.Load() && settled.Load() >= kept.Load()) {
					n, err := node.workOnce(ctx, ceilingBatch)
					if err != nil {
						errs <- err
						cancel()
						return
					}
					if settled.Add(int64(n)); n == 0 {
						sleepFor(ctx, time.Millisecond)
					}
				}
			})
		}
	}
	loading.Wait()
	full.Store(true)
	working.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return settled.Load(), err
}

func (s *bareOutbox) activate(ctx context.Context) error {
	for _, id := range s.ids {
		if _, err := s.outbox.SetMerchantState(ctx, id, outbox.MerchantActive, "", db.MillisOf(time.Now())); err != nil {
			return err
		}
	}
	return nil
}
