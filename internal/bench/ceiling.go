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
	var rows time.Duration
	for _, n := range counts {
		var err error
		if rows, err = b.ceilingOf(ctx, n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return b.limit(ctx, rows)
}

// limit measures the share of RSA in a callback of which nothing is left but RSA, an
// exchange over HTTP and its rows, which take that long: a service whose own code cost
// nothing would reach it. PostgreSQL's own time is known only where it runs on this
// machine.
func (b *Bench) limit(ctx context.Context, rows time.Duration) error {
	rsa, err := b.load.rsaFor(ctx, b.short())
	if err != nil {
		return err
	}
	_, http, err := b.httpRate(ctx)
	if err != nil {
		return err
	}
	least := rsa.cpu + http + rows.Seconds()
	b.report.add("ceiling", "RSA beside bare HTTP and rows", "% of the processor time", 100*rsa.cpu/least).
		note("the most of the RSA bound that any service reaches with these; %s µs a callback", number(1e6*least))
	return nil
}

// ceilingOf gives the processor time of one callback, the database's own included.
func (b *Bench) ceilingOf(ctx context.Context, n int) (each time.Duration, err error) {
	const suite = "ceiling"
	nodes := make([]*bareOutbox, n)
	for i := range nodes {
		// Each node keeps the deposits of merchants of its own and works for those of all.
		if nodes[i], err = b.openOutbox(ctx, fmt.Sprint(suite, i), ceilingMerchants/n); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, nodes[i].close()) }()
	}
	for _, one := range nodes {
		// Opening a node has paused the merchants of those before it.
		if err := one.activate(ctx); err != nil {
			return 0, err
		}
	}
	var server serverTime
	if b.DB != "" {
		if server, err = newServerTime(ctx, nodes[0].outbox); err != nil {
			return 0, err
		}
	}
	b.progress("ceiling: %d nodes", n)
	long := 3 * b.short()
	start, before := time.Now(), processorTime()
	done, err := b.ceilingFor(ctx, nodes, long)
	if err != nil {
		return 0, err
	}
	took, used := time.Since(start), processorTime()-before
	name := fmt.Sprintf("%d nodes", n)
	b.report.add(suite, name, "callbacks/s", float64(done)/took.Seconds()).note("kept, claimed and settled, without RSA and HTTP")
	b.report.add(suite, name+", processor", "µs a callback", us(used)/float64(done))
	if b.DB == "" || server.postmaster == 0 {
		return used / time.Duration(done), nil
	}
	served, err := server.since()
	if err != nil {
		return 0, err
	}
	b.report.add(suite, name+", PostgreSQL's processor", "µs a callback", us(served)/float64(done))
	return (used + served) / time.Duration(done), nil
}

// ceilingFor lets nodes work for about that long and until nothing is left, and gives
// how many callbacks they settled.
func (b *Bench) ceilingFor(ctx context.Context, nodes []*bareOutbox, long time.Duration) (int64, error) {
	run := ceilingRun{load: b.load, until: time.Now().Add(long)}
	ctx, run.fail = context.WithCancelCause(ctx)
	defer run.fail(nil)
	var loading, working sync.WaitGroup
	for i, node := range nodes {
		loading.Go(func() { run.keep(ctx, node, fmt.Sprint("ceiling-", i)) })
		working.Go(func() { run.sweep(ctx, node) })
		for range ceilingWorkers {
			working.Go(func() { run.work(ctx, node) })
		}
	}
	loading.Wait()
	run.full.Store(true)
	working.Wait()
	return run.settled.Load(), context.Cause(ctx)
}

// ceilingRun is what the goroutines of all nodes share.
type ceilingRun struct {
	load          *load
	until         time.Time // when no more is kept
	kept, settled atomic.Int64
	full          atomic.Bool // no more will be kept
	fail          context.CancelCauseFunc
}

// on reports whether something is left to be done. It fails the run if that takes too
// long.
func (r *ceilingRun) on(ctx context.Context) bool {
	if time.Since(r.until) > patience {
		r.fail(fmt.Errorf("%d of %d callbacks were not settled", r.kept.Load()-r.settled.Load(), r.kept.Load()))
	}
	return ctx.Err() == nil && !(r.full.Load() && r.settled.Load() >= r.kept.Load())
}

// keep keeps deposits of a set in batches, as calls of the API do.
func (r *ceilingRun) keep(ctx context.Context, node *bareOutbox, set string) {
	for from := 0; time.Now().Before(r.until) && ctx.Err() == nil; {
		if r.kept.Load()-r.settled.Load() > ceilingAhead {
			sleepFor(ctx, time.Millisecond)
			continue
		}
		err := node.inSteps(r.load, set, from, from+ingestBatch, ingestBatch, func(rows []outbox.NewCallback) error { return node.keep(ctx, rows) })
		if err != nil {
			r.fail(err)
			return
		}
		from += ingestBatch
		r.kept.Add(ingestBatch)
	}
}

func (r *ceilingRun) work(ctx context.Context, node *bareOutbox) {
	for r.on(ctx) {
		n, err := node.workOnce(ctx, ceilingBatch)
		if err != nil {
			r.fail(err)
			return
		}
		if r.settled.Add(int64(n)); n == 0 {
			sleepFor(ctx, time.Millisecond)
		}
	}
}

// sweep repairs, each second as a node does, what a claim beside an ingest can leave.
func (r *ceilingRun) sweep(ctx context.Context, node *bareOutbox) {
	for last := time.Now(); r.on(ctx); sleepFor(ctx, 10*time.Millisecond) {
		if time.Since(last) < time.Second {
			continue
		}
		last = time.Now()
		if _, err := node.outbox.Sweep(ctx, db.MillisOf(last)); err != nil {
			r.fail(err)
			return
		}
	}
}

func (s *bareOutbox) activate(ctx context.Context) error {
	for _, id := range s.ids {
		if _, err := s.outbox.SetMerchantState(ctx, id, outbox.MerchantActive, "", db.MillisOf(time.Now())); err != nil {
			return err
		}
	}
	return nil
}
