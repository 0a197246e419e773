package bench

import (
	"context"
	"fmt"
	"time"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
)

// merchants measures the rate of the suite system with each of several numbers of merchants.
func (b *Bench) merchants(ctx context.Context, numbers []int) error {
	for _, n := range numbers {
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

// backlogRate is how many withdrawals a second are asked for beside a backlog.
const backlogRate = 20

// backlog measures withdrawals of a merchant for whom nothing else waits, and of
// the same merchant while a backlog of deposits is being delivered.
func (b *Bench) backlog(ctx context.Context, waiting int) error {
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
		b.progress("a backlog of %d deposits", waiting)
		if err := r.allDeposits(ctx, "backlog", waiting); err != nil {
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
		b.report.addLatencies(suite, fmt.Sprintf("withdrawals beside %d deposits", waiting), beside)
		b.report.add(suite, "p99 beside the backlog", "ms", beside.ms(99)).against("ms alone", alone.ms(99))
		left := b.report.add(suite, "deposits left at the end", "", float64(int64(waiting)-delivered))
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

// allDeposits posts n deposits of a set, a thousand in each call.
func (r *rig) allDeposits(ctx context.Context, set string, n int) error {
	const atOnce = 1000
	for from := 0; from < n; from += atOnce {
		if err := r.deposits(ctx, set, from, min(atOnce, n-from)); err != nil {
			return err
		}
	}
	return nil
}

// withdrawal makes withdrawal n of a set.
func (l *load) withdrawal(merchant, set string, n int) client.NewWithdrawal {
	return client.NewWithdrawal{
		Merchant: merchant, CallBackID: fmt.Sprintf("%s-withdrawal-%08d", set, n), TenantUserID: fmt.Sprintf("user-%08d", n),
		Details: &client.Details{Address: l.details.Address, ChainName: l.details.ChainName, Symbol: l.details.Symbol, Amount: l.details.Amount},
	}
}

// order tells a gateway of a withdrawal that the service will ask about. The
// merchant in memory confirms what it was never told of.
func (m *merchantEnd) order(ctx context.Context, callBackID, tenantUserID string) error {
	if m.gateway == nil {
		return nil
	}
	_, _, err := m.gateway.Book().AddOrder(ctx, book.NewOrder{CallBackID: callBackID, TenantUserID: tenantUserID,
		Details: m.load.details, Expires: db.Never}, db.MillisOf(time.Now()))
	return err
}
