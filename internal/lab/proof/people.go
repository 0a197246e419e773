package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/client"
	"countersign/merchant/sqlinbox"
)

// End ends a withdrawal at random: the core or the application takes it back, or a person
// declines it, or blocks what was confirmed. Nothing may be decided against that, whatever is restored.
func (ch *Chain) End(ctx context.Context) error {
	if ch.rand.IntN(4) == 0 {
		page, err := ch.api.Withdrawals(ctx, client.WithdrawalFilter{State: client.WithdrawalConfirmed}, client.PageOptions{Limit: 20})
		if err != nil || len(page.Withdrawals) == 0 {
			return nil
		}
		w := page.Withdrawals[ch.rand.IntN(len(page.Withdrawals))]
		return ch.end(w.CallBackID, "blocked", func() error {
			_, err := ch.api.BlockWithdrawal(ctx, w.ID, "fraud")
			return err
		})
	}
	if ch.gateway == nil || ch.rand.IntN(2) == 0 {
		page, err := ch.api.Withdrawals(ctx, client.WithdrawalFilter{State: client.WithdrawalAwaiting}, client.PageOptions{Limit: 20})
		if err != nil || len(page.Withdrawals) == 0 {
			return nil // nothing awaits, or the service is away
		}
		w := page.Withdrawals[ch.rand.IntN(len(page.Withdrawals))]
		return ch.end(w.CallBackID, "core", func() error {
			_, err := ch.api.CancelWithdrawal(ctx, w.ID)
			return err
		})
	}
	// What was asked for lately, or will be soon.
	id, where := fmt.Sprint("W", max(1, ch.truth.asked-2*ahead+ch.rand.IntN(2*ahead))), "cancelled"
	end := func(ctx context.Context, id, reason string) error {
		_, err := ch.gateway.CancelOrder(ctx, id, reason)
		return err
	}
	if ch.rand.IntN(2) == 0 {
		where, end = "declined", ch.decline
	}
	return ch.end(id, where, func() error {
		return end(ctx, id, "chaos")
	})
}

// decline and approve answer the tasks about an order.
func (ch *Chain) decline(ctx context.Context, id, reason string) error {
	_, err := ch.gateway.DeclineTask(ctx, client.TaskID(client.TaskOrder, id), reason)
	return err
}

func (ch *Chain) approve(ctx context.Context, id, reason string) error {
	_, err := ch.gateway.ApproveTask(ctx, client.TaskID(client.TaskOrder, id), reason)
	return err
}

// end repeats do until it says whether it is done.
func (ch *Chain) end(id, where string, do func() error) error {
	err := ch.repeat(do)
	switch {
	case errors.Is(err, client.ErrConflict), errors.Is(err, client.ErrNotFound):
		return nil // it was decided
	case err == nil:
		ch.truth.ended[id] = where
		ch.Ended[where]++
	}
	return err
}

// repeat calls do until it succeeds, is refused, or failed for a minute.
func (ch *Chain) repeat(do func() error) (err error) {
	for range 300 {
		if err = do(); err == nil || errors.Is(err, client.ErrConflict) || errors.Is(err, client.ErrNotFound) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

// Decide has a person decide on orders and deposits that are held; with all on every one.
func (ch *Chain) Decide(ctx context.Context, all bool) error {
	if ch.gateway == nil {
		return ch.reviewDeposits(ctx)
	}
	page, err := ch.gateway.Orders(ctx, client.OrderFilter{State: client.OrderHeld}, client.PageOptions{Limit: 100})
	if err != nil {
		return nil // it is away
	}
	for _, o := range page.Orders {
		switch n := ch.rand.IntN(4); {
		case o.Restored || n == 0 && !all:
		case n < 2:
			err = ch.end(o.CallBackID, "declined", func() error { return ch.decline(ctx, o.CallBackID, "chaos") })
		default:
			ch.truth.approved[o.CallBackID] = true
			ch.Decided["approved"]++
			err = ch.repeat(func() error { return ch.approve(ctx, o.CallBackID, "chaos") })
		}
		if err != nil && !errors.Is(err, client.ErrConflict) {
			return err
		}
	}
	return ch.decideDeposits(ctx)
}

// twin returns the other deposit of the same transfer; empty: there is none.
func twin(trackingID string) string {
	switch n := numberOf(trackingID); {
	case transferOf(n) != n:
		return fmt.Sprint("D", n-1)
	case transferOf(n+1) == n:
		return fmt.Sprint("D", n+1)
	}
	return ""
}

// decideDeposits decides on deposits that the gateway holds: of two that are one transfer
// one counts, and two transfers that only look like one count both.
func (ch *Chain) decideDeposits(ctx context.Context) error {
	page, err := ch.gateway.SearchDeposits(ctx, client.DepositSearch{State: client.DepositHeld}, client.PageOptions{Limit: 100})
	if err != nil {
		return nil // it is away
	}
	for _, d := range page.Deposits {
		counts, err := ch.twinCounts(ctx, d.TrackingID)
		if err != nil {
			return nil
		}
		decide, word := ch.gateway.ApproveTask, "deposits credited"
		if counts {
			decide, word = ch.gateway.DeclineTask, "deposits rejected"
		}
		err = ch.repeat(func() error {
			_, err := decide(ctx, client.DepositTask(d.Seq), "chaos")
			return err
		})
		if errors.Is(err, client.ErrConflict) {
			continue // of a restore that is not reconciled
		}
		if err != nil {
			return err
		}
		ch.Decided[word]++
	}
	return nil
}

// twinCounts reports whether the same transfer counts already, or was booked.
func (ch *Chain) twinCounts(ctx context.Context, trackingID string) (bool, error) {
	other := twin(trackingID)
	if other == "" {
		return false, nil
	}
	booked, err := column(ctx, ch.store, `SELECT tracking_id, '' FROM credits`)
	if err != nil || slices.ContainsFunc(booked, func(c [2]string) bool { return c[0] == other }) {
		return true, err
	}
	if ch.gateway == nil {
		return false, nil
	}
	page, err := ch.gateway.SearchDeposits(ctx, client.DepositSearch{TrackingID: other}, client.PageOptions{Limit: 10})
	return slices.ContainsFunc(page.Deposits, func(d client.DepositEntry) bool {
		return d.State == client.DepositTaken || d.State == client.DepositCredited
	}), err
}

// reviewDeposits is decideDeposits of a merchant with sqlinbox.
func (ch *Chain) reviewDeposits(ctx context.Context) error {
	list, err := ch.inbox.Held(ctx, 0, 100)
	if err != nil {
		return nil
	}
	for _, d := range list {
		counts, err := ch.twinCounts(ctx, d.TrackingID)
		if err != nil {
			return nil
		}
		decide, word := ch.inbox.Credit, "deposits credited"
		if counts {
			decide, word = ch.inbox.Reject, "deposits rejected"
		}
		// Its database is never restored, but it may be busy, and the answer to a commit lost.
		if err := decide(ctx, d.TrackingID, "chaos"); err == nil {
			ch.Decided[word]++
		} else if errors.Is(err, sqlinbox.ErrDecided) || errors.Is(err, sqlinbox.ErrNotHeld) {
			return err
		}
	}
	return nil
}

// held says what awaits a person; empty: nothing.
func (ch *Chain) held(ctx context.Context) (string, error) {
	if ch.gateway == nil {
		list, err := ch.inbox.Held(ctx, 0, 1)
		if len(list) > 0 {
			return "a held deposit", err
		}
		return "", err
	}
	page, err := ch.gateway.SearchDeposits(ctx, client.DepositSearch{State: client.DepositHeld}, client.PageOptions{Limit: 1})
	if len(page.Deposits) > 0 {
		return "a held deposit", err
	}
	return "", err
}

// try has people and programs act on a restored end that is not reconciled: it must refuse.
// Whether it did shows in what the end decided meanwhile.
func (ch *Chain) try(ctx context.Context, end string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if end == "service" {
		page, _ := ch.api.Withdrawals(ctx, client.WithdrawalFilter{}, client.PageOptions{Limit: 50})
		for _, w := range page.Withdrawals {
			switch w.State {
			case client.WithdrawalAwaiting:
				_, _ = ch.api.CancelWithdrawal(ctx, w.ID)
			case client.WithdrawalConfirmed:
				_, _ = ch.api.ReleaseWithdrawal(ctx, w.ID, "try-"+w.CallBackID)
			}
		}
		return
	}
	orders, _ := ch.gateway.Orders(ctx, client.OrderFilter{}, client.PageOptions{Limit: 2 * ahead})
	for i, o := range orders.Orders {
		if !o.State.Undecided() {
			continue
		}
		switch i % 4 {
		case 0:
			_, _ = ch.gateway.CancelOrder(ctx, o.CallBackID, "try")
		case 1:
			_ = ch.decline(ctx, o.CallBackID, "try")
		case 2:
			_ = ch.approve(ctx, o.CallBackID, "try")
		default:
			_, _ = ch.gateway.ApproveTask(ctx, client.TaskID(client.TaskRestored, o.CallBackID), "try")
		}
	}
	deposits, _ := ch.gateway.SearchDeposits(ctx, client.DepositSearch{State: client.DepositHeld}, client.PageOptions{Limit: 20})
	for i, d := range deposits.Deposits {
		_, _ = []func(context.Context, string, string) (client.Task, error){ch.gateway.ApproveTask, ch.gateway.DeclineTask}[i%2](ctx, client.DepositTask(d.Seq), "try")
	}
}
