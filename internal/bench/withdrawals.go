package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"countersign"
	"countersign/client"
)

// The steps of a withdrawal, in their order. What the service does between calls is taken from
// its own times, in milliseconds.
const (
	stepOrder   = iota // the call that asks for it
	stepQueue          // from then to the question
	stepConfirm        // from the question to the decision
	stepRelease        // the call that takes the permit
	stepOutcome        // the call that reports its end
	stepNotice         // from the end to the merchant's answer to the notice
	stepWhole          // from when it was due to that answer
	steps
)

var stepNames = [steps]string{"order", "until the question", "confirmation", "release", "outcome", "notice", "whole"}

// withdrawals measures each step of withdrawals at a fixed rate, each done when it is due,
// whether or not those before have ended.
func (b *Bench) withdrawals(ctx context.Context) error {
	return b.withRig(ctx, 1, func(r *rig) error {
		n := max(1, int(backlogRate*b.For.Seconds()))
		decided, stop, err := r.decisions(ctx)
		if err != nil {
			return err
		}
		defer stop()
		took := make([][steps]time.Duration, n)
		errs := make([]error, n)
		start := time.Now().Add(10 * time.Millisecond)
		var all sync.WaitGroup
		for i := range n {
			due := start.Add(time.Duration(i) * time.Second / backlogRate)
			sleepFor(ctx, time.Until(due))
			all.Go(func() { took[i], errs[i] = r.wholeWithdrawal(ctx, i, due, decided) })
			if i%50 == 0 {
				b.progress("withdrawals at %d/s: %d of %d", backlogRate, i, n)
			}
		}
		if err := waitFor(ctx, &all); err != nil {
			return err
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		const suite = "withdrawals"
		for step, name := range stepNames {
			l := newLatencies()
			for i := range took {
				if err := l.hist.RecordValue(max(1, took[i][step].Microseconds())); err != nil {
					return err
				}
			}
			for _, q := range []struct {
				name string
				at   float64
			}{{"p50", 50}, {"p99", 99}} {
				b.report.add(suite, name+", "+q.name, "ms", l.ms(q.at))
			}
		}
		b.report.add(suite, "withdrawals, the whole of each", "withdrawals/s", float64(n)/time.Since(start).Seconds()).note("of %d a second that were due", backlogRate)
		return nil
	})
}

// decisions follows the feed of decisions as a wallet core does. decided waits for that of a
// withdrawal.
func (r *rig) decisions(ctx context.Context) (decided func(ctx context.Context, id string) error, stop func(), err error) {
	after := int64(0)
	for { // what an earlier bench left
		part, err := r.api.Decisions(ctx, client.FeedOptions{After: after, Limit: 1000})
		if err != nil {
			return nil, nil, err
		}
		if len(part.Decisions) == 0 {
			break
		}
		after = part.Next
	}
	var mu sync.Mutex
	known := map[string]chan error{}
	of := func(id string) chan error {
		mu.Lock()
		defer mu.Unlock()
		if known[id] == nil {
			known[id] = make(chan error, 1)
		}
		return known[id]
	}
	ctx, cancel := context.WithCancel(ctx)
	failed, ended := make(chan struct{}), make(chan struct{})
	var failure error
	go func() {
		defer close(ended)
		for d, err := range r.api.FollowDecisions(ctx, after) {
			if err != nil {
				if ctx.Err() == nil {
					failure = err
					close(failed)
				}
				return
			}
			var is error
			if d.Withdrawal.Decision != countersign.DecisionConfirmed {
				is = fmt.Errorf("withdrawal %s is %s: %s", d.Withdrawal.ID, d.Withdrawal.Decision, d.Withdrawal.Reason)
			}
			of(d.Withdrawal.ID) <- is
		}
	}()
	decided = func(ctx context.Context, id string) error {
		select {
		case err := <-of(id):
			return err
		case <-failed:
			return failure
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return decided, func() { cancel(); <-ended }, nil
}

// wholeWithdrawal does withdrawal n, and says how long each step took.
func (r *rig) wholeWithdrawal(ctx context.Context, n int, due time.Time, decided func(context.Context, string) error) (took [steps]time.Duration, err error) {
	order := r.b.load.withdrawal(r.ids[0], r.name+"whole", n)
	if err := r.merchant.order(ctx, order.CallBackID, order.TenantUserID); err != nil {
		return took, err
	}
	began := time.Now()
	lap := func(step int) {
		took[step] = time.Since(began)
		began = time.Now()
	}
	w, err := r.api.CreateWithdrawal(ctx, order)
	if err != nil {
		return took, err
	}
	lap(stepOrder)
	if err := decided(ctx, w.ID); err != nil {
		return took, err
	}
	began = time.Now()
	permit, err := r.api.ReleaseWithdrawal(ctx, w.ID, order.CallBackID)
	if err != nil {
		return took, err
	}
	lap(stepRelease)
	ended, err := r.api.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0x" + order.CallBackID}})
	if err != nil {
		return took, err
	}
	lap(stepOutcome)
	question, err := r.api.Callback(ctx, w.Callback)
	if err != nil {
		return took, err
	}
	if len(question.Attempts) == 0 {
		return took, fmt.Errorf("withdrawal %s was decided without an attempt", w.ID)
	}
	took[stepQueue] = between(ended.Created, question.Attempts[0].Started)
	took[stepConfirm] = between(question.Attempts[0].Started, ended.Decided)
	for {
		list, err := r.api.Callbacks(ctx, client.CallbackFilter{Merchant: w.Merchant, CallBackID: order.CallBackID, Type: countersign.TypeWithdraw}, client.PageOptions{})
		if err != nil {
			return took, err
		}
		for _, notice := range list.Callbacks {
			if notice.Settled != 0 {
				took[stepNotice] = between(ended.Ended, notice.Settled)
				took[stepWhole] = notice.Settled.Time().Sub(due)
				return took, nil
			}
		}
		if sleepFor(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return took, ctx.Err()
		}
	}
}

func between(from, to client.Time) time.Duration { return max(0, to.Time().Sub(from.Time())) }
