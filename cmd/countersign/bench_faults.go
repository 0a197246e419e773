package main

import (
	"context"
	"errors"
	"fmt"

	"countersign/client"
	"countersign/merchant"
)

// faultMerchants is how many share the load of the suite faults; the first is
// dead and the second slow.
const faultMerchants = 100

// faults measures the others' latency before and while one merchant is dead and
// another takes slowAnswer for each answer. A tenth of the load goes to each of
// those two.
func (b *bench) faults(ctx context.Context) (err error) {
	const suite = "faults"
	n := faultMerchants
	if b.Quick {
		n = 10
	}
	r, err := b.newRig(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	hand := func(set string) arrival {
		return func(ctx context.Context, i int) (string, error) {
			to, timed := 2+i%(n-2), true
			switch i % 10 {
			case 3:
				to, timed = 0, false
			case 7:
				to, timed = 1, false
			}
			got, err := r.api.AddDeposits(ctx, b.load.deposit(r.ids[to], r.name+set, i))
			if err != nil || !timed {
				return "", err
			}
			return r.key(got[0]), nil
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
}

func (r *benchRig) breakTwo(ctx context.Context) error {
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

// backlog measures withdrawals of a merchant that has nothing else waiting, and
// of the same one with a backlog of deposits that is being worked off.
func (b *bench) backlog(ctx context.Context) (err error) {
	const suite = "backlog"
	r, err := b.newRig(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	alone, err := r.withdrawals(ctx, "alone")
	if err != nil {
		return err
	}
	// Kept back until all are there, or a fast machine would be done with them.
	if _, err := r.api.PauseMerchant(ctx, r.ids[0], "the backlog is being made"); err != nil {
		return err
	}
	b.progress("a backlog of %d deposits", b.Backlog)
	if err := r.deposits(ctx, "backlog", b.Backlog, 1000); err != nil {
		return err
	}
	if _, err := r.api.ResumeMerchant(ctx, r.ids[0]); err != nil {
		return err
	}
	worked := r.settled.accepted.Load()
	beside, err := r.withdrawals(ctx, "beside")
	if err != nil {
		return err
	}
	worked = r.settled.accepted.Load() - worked - beside.hist.TotalCount()
	b.report.addLatencies(suite, "withdrawals alone", alone)
	b.report.addLatencies(suite, fmt.Sprintf("withdrawals beside %d deposits", b.Backlog), beside)
	b.report.add(suite, "p99 beside the backlog", "ms", beside.ms(99)).against("ms alone", alone.ms(99))
	left := b.report.add(suite, "deposits left at the end", "", float64(int64(b.Backlog)-worked))
	left.note("%d were delivered meanwhile", worked)
	return nil
}

// withdrawals asks for them at a fixed rate and times them to the decision.
func (r *benchRig) withdrawals(ctx context.Context, set string) (*latencies, error) {
	return r.openLoop(ctx, backlogRate, r.b.For, func(ctx context.Context, n int) (string, error) {
		w := r.b.load.withdrawal(r.ids[0], r.name+set, n)
		if err := r.merchant.order(ctx, w.CallBackID, w.TenantUserID); err != nil {
			return "", err
		}
		got, err := r.api.CreateWithdrawal(ctx, w)
		return got.ID, err
	})
}
