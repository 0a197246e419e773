package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"countersign/client"
	"countersign/merchant"
)

// population is the merchants of one measurement, the first bad of which are slow or
// hang.
type population struct {
	all, bad int
	path     string        // of the merchants' end, for the bad ones
	rate     float64       // callbacks a second for each of them, in each lane
	settle   time.Duration // how long they get callbacks before anything is measured
}

// populations are those of the suite faults. A slow merchant gets more callbacks than it
// answers, so that it uses all its exchanges and more wait. Merchants that hang get as many
// as the others, and are measured from the start.
func (b *Bench) populations() []population {
	if b.Quick {
		return []population{{12, 2, pathSlow, 5, 0}, {20, 10, pathHang, b.Rate / 20, 0}}
	}
	full := 1.05 * float64(b.Concurrency) / slowAnswer.Seconds()
	return []population{{52, 2, pathSlow, full, slowAnswer}, {109, 9, pathSlow, full, slowAnswer}, {1000, 500, pathHang, b.Rate / 1000, 0}}
}

// faults measures the latency of healthy merchants in both lanes, first without and
// then beside slow or hanging ones.
func (b *Bench) faults(ctx context.Context) error {
	for _, p := range b.populations() {
		err := b.withRig(ctx, p.all, func(r *rig) error { return r.faults(ctx, p) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) faults(ctx context.Context, p population) error {
	healthy := r.ids[p.bad:]
	without, err := r.bothLanes(ctx, healthy, "without")
	if err != nil {
		return err
	}
	if err := r.setPath(ctx, r.ids[:p.bad], p.path); err != nil {
		return err
	}
	stop := r.feed(ctx, r.ids[:p.bad], p.rate)
	sleepFor(ctx, p.settle)
	beside, err := r.bothLanes(ctx, healthy, "beside")
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	const suite = "faults"
	kind := map[string]string{pathSlow: "slow", pathHang: "hanging"}[p.path]
	for lane, what := range [2]string{"deposits", "withdrawals"} {
		name := fmt.Sprintf("%s beside %d %s of %d", what, p.bad, kind, p.all)
		for _, q := range []struct {
			name string
			at   float64
		}{{"p50", 50}, {"p99", 99}, {"max", 100}} {
			r.b.report.add(suite, name+", "+q.name, "ms", beside[lane].ms(q.at)).against("ms without them", without[lane].ms(q.at))
		}
	}
	return nil
}

// bothLanes times deposits and withdrawals of the merchants, each at half of the bench's
// rate and both at the same time.
func (r *rig) bothLanes(ctx context.Context, merchants []string, set string) (l [2]*latencies, err error) {
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() {
		l[0], errs[0] = r.openLoop(ctx, r.b.Rate/2, r.b.For, func(ctx context.Context, n int) (string, error) {
			return r.oneDeposit(ctx, merchants[n%len(merchants)], set, n)
		})
	})
	both.Go(func() {
		l[1], errs[1] = r.openLoop(ctx, r.b.Rate/2, r.b.For, func(ctx context.Context, n int) (string, error) {
			return r.oneWithdrawal(ctx, merchants[n%len(merchants)], set, n)
		})
	})
	both.Wait()
	return l, errors.Join(errs[:]...)
}

// setPath lets the merchants' callbacks go to that path of the merchants' end.
func (r *rig) setPath(ctx context.Context, merchants []string, path string) error {
	base := r.merchant.url() + path
	return inParallel(16, len(merchants), func(i int) error {
		return patiently(func() error {
			_, err := r.api.UpdateMerchant(ctx, merchants[i], client.MerchantPatch{
				MerchantSettings: client.MerchantSettings{NotifyURL: base + merchant.DefaultNotifyPath, WithdrawURL: base + merchant.DefaultWithdrawPath},
			})
			return err
		})
	})
}

// feed hands over callbacks of both lanes to the merchants in turn, rate a second to
// each, until stop is called.
func (r *rig) feed(ctx context.Context, merchants []string, rate float64) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var errs [2]error
	var both sync.WaitGroup
	each := time.Duration(float64(time.Second) / rate / float64(len(merchants)))
	for lane, one := range [2]func(context.Context, string, string, int) (string, error){r.oneDeposit, r.oneWithdrawal} {
		both.Go(func() {
			var calls sync.WaitGroup
			defer calls.Wait()
			var mu sync.Mutex
			due := time.NewTicker(each)
			defer due.Stop()
			for n := 0; ; n++ {
				select {
				case <-due.C:
				case <-ctx.Done():
					return
				}
				calls.Go(func() {
					if _, err := one(ctx, merchants[n%len(merchants)], "bad", n); err != nil && ctx.Err() == nil {
						mu.Lock()
						defer mu.Unlock()
						errs[lane] = err
					}
				})
			}
		})
	}
	return func() error {
		cancel()
		both.Wait()
		return errors.Join(errs[:]...)
	}
}

func sleepFor(ctx context.Context, long time.Duration) {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
}

// backlogRate is how many withdrawals a second are asked for beside a backlog.
const backlogRate = 20

// backlog measures withdrawals of a merchant for whom nothing else waits, and of
// the same merchant while a backlog of deposits is being delivered.
func (b *Bench) backlog(ctx context.Context) error {
	const suite = "backlog"
	return b.withRig(ctx, 1, func(r *rig) error {
		alone, err := r.withdrawals(ctx, "alone")
		if err != nil {
			return err
		}
		// Paused until all deposits are there: a fast machine would have delivered them
		// by then.
		if _, err := r.api.PauseMerchant(ctx, r.ids[0], "the backlog is being made"); err != nil {
			return err
		}
		b.progress("a backlog of %d deposits", b.Backlog)
		if err := r.allDeposits(ctx, "backlog", b.Backlog); err != nil {
			return err
		}
		if _, err := r.api.ResumeMerchant(ctx, r.ids[0], client.Resume{}); err != nil {
			return err
		}
		before := r.tracker.accepted.Load()
		beside, err := r.withdrawals(ctx, "beside")
		if err != nil {
			return err
		}
		delivered := r.tracker.accepted.Load() - before - beside.hist.TotalCount()
		b.report.addLatencies(suite, "withdrawals alone", alone)
		b.report.addLatencies(suite, fmt.Sprintf("withdrawals beside %d deposits", b.Backlog), beside)
		b.report.add(suite, "p99 beside the backlog", "ms", beside.ms(99)).against("ms alone", alone.ms(99))
		left := b.report.add(suite, "deposits left at the end", "", float64(int64(b.Backlog)-delivered))
		left.note("%d were delivered meanwhile", delivered)
		return nil
	})
}

// withdrawals asks for withdrawals at a fixed rate and times each to its decision.
func (r *rig) withdrawals(ctx context.Context, set string) (*latencies, error) {
	return r.openLoop(ctx, backlogRate, r.b.For, func(ctx context.Context, n int) (string, error) {
		return r.oneWithdrawal(ctx, r.ids[0], set, n)
	})
}

// oneWithdrawal asks for withdrawal n of a set for a merchant and gives its key.
func (r *rig) oneWithdrawal(ctx context.Context, merchant, set string, n int) (key string, err error) {
	w := r.b.load.withdrawal(merchant, r.name+set, n)
	if err := r.merchant.order(ctx, w.CallBackID, w.TenantUserID); err != nil {
		return "", err
	}
	got, err := r.api.CreateWithdrawal(ctx, w)
	return got.ID, err
}
