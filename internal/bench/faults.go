package bench

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/merchant"
)

// faults measures the latency of healthy merchants, first with all merchants
// healthy, then with one that is dead and one that takes slowAnswer for each
// answer. Each of those two gets a tenth of the load.
func (b *Bench) faults(ctx context.Context) error {
	const suite = "faults"
	n := 100
	if b.Quick {
		n = 10
	}
	return b.withRig(ctx, n, func(r *rig) error {
		hand := func(set string) handOver {
			return func(ctx context.Context, i int) (string, error) {
				switch i % 10 {
				case 3:
					_, err := r.oneDeposit(ctx, r.ids[0], set, i) // will be dead
					return "", err
				case 7:
					_, err := r.oneDeposit(ctx, r.ids[1], set, i) // will be slow
					return "", err
				}
				return r.oneDeposit(ctx, r.ids[2+i%(n-2)], set, i)
			}
		}
		healthy, err := r.openLoop(ctx, b.Rate, b.For, hand("healthy"))
		if err != nil {
			return err
		}
		if err := r.breakTwo(ctx); err != nil {
			return err
		}
		broken, err := r.openLoop(ctx, b.Rate, b.For, hand("broken"))
		if err != nil {
			return err
		}
		b.report.addLatencies(suite, "all healthy", healthy)
		b.report.addLatencies(suite, "one dead, one slow", broken)
		b.report.add(suite, "p50 beside the broken", "ms", broken.ms(50)).against("ms healthy", healthy.ms(50))
		b.report.add(suite, "p99 beside the broken", "ms", broken.ms(99)).against("ms healthy", healthy.ms(99))
		return nil
	})
}

// breakTwo makes the first merchant dead and the second slow.
func (r *rig) breakTwo(ctx context.Context) error {
	dead, err := deadURL()
	if err != nil {
		return err
	}
	for i, base := range []string{dead, r.merchant.url() + "/slow"} {
		_, err := r.api.UpdateMerchant(ctx, r.ids[i], client.MerchantPatch{
			NotifyURL: client.Change(base + merchant.DefaultNotifyPath), WithdrawURL: client.Change(base + merchant.DefaultWithdrawPath),
		})
		if err != nil {
			return err
		}
	}
	return nil
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
		if _, err := r.api.ResumeMerchant(ctx, r.ids[0]); err != nil {
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
		w := r.b.load.withdrawal(r.ids[0], r.name+set, n)
		if err := r.merchant.order(ctx, w.CallBackID, w.TenantUserID); err != nil {
			return "", err
		}
		got, err := r.api.CreateWithdrawal(ctx, w)
		return got.ID, err
	})
}
