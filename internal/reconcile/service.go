package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Service compares a service's database with the files and the gateway. It reports
// whether an epoch was open and is not any more.
func Service(ctx context.Context, o *outbox.Outbox, c Config) (closed bool, err error) {
	if c.Settle && c.Executed == "" {
		return false, errors.New("settling needs what the wallet executed: give --executed, with an empty file if it executed nothing")
	}
	var ends *Index
	err = c.steady(ctx, nil, func() (err error) {
		ends, err = c.compare(ctx, local{o})
		return err
	})
	if err != nil {
		return false, err
	}
	if c.Executed != "" {
		if err := c.executed(ctx, o, ends); err != nil {
			return false, err
		}
	}
	if err := c.added(ctx, local{o}); err != nil { // what was executed is known now
		return false, err
	}
	if !c.Settle {
		return false, nil
	}
	return o.Reconcile(ctx, c.Now)
}

// became is what the core says of a withdrawal.
type became int

const (
	permitted became = iota // it had a permit
	over                    // it ended without one
	nothing                 // nothing became of it
)

// became gives what a line of the core says. The states are those of the API.
func (l Line) became() (became, error) {
	switch outbox.WithdrawalState(l.State) {
	case "", outbox.WithdrawalReleased, outbox.WithdrawalExecuted, outbox.WithdrawalFailed:
		return permitted, nil
	case outbox.WithdrawalCancelled, outbox.WithdrawalDeclined, outbox.WithdrawalExpired, outbox.WithdrawalBlocked, outbox.WithdrawalLapsed:
		return over, nil
	case "open", outbox.WithdrawalAwaiting, outbox.WithdrawalConfirmed:
		return nothing, nil
	}
	return 0, fmt.Errorf("state %q is not known: open if nothing became of it, cancelled, executed or failed", l.State)
}

// executed compares withdrawals with what the core says became of them, and settles them.
// ends are those that ended at their merchants.
func (c Config) executed(ctx context.Context, o *outbox.Outbox, ends *Index) error {
	all, err := c.index(c.Executed, callBackID, true, nil)
	if err != nil {
		return err
	}
	is := map[became]*Index{permitted: {}, nothing: {}}
	err = Lines(c.Executed, func(l Line) error {
		b, err := l.became()
		if x := is[b]; err == nil && x != nil {
			x.Add(c.merchant(l), l.CallBackID, Sum(l.Symbol, l.Amount), 0)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, x := range is {
		x.Sort()
	}
	err = o.EachWithdrawal(ctx, func(w outbox.Withdrawal) error {
		f := Finding{Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State)}
		if w.Details != nil {
			f.Here = Sum(w.Details.Symbol, w.Details.Amount)
		}
		_, found, agrees := is[permitted].Match(w.Merchant, w.CallBackID, f.Here)
		switch {
		case found && !agrees:
			f.Finding = AmountDiffers
		case !found && w.Released != 0 && w.State != outbox.WithdrawalFailed:
			f.Finding = ReleasedNotExecuted
		default:
			return nil // what has no permit is told of with its line
		}
		return c.Report(f)
	})
	if err != nil {
		return err
	}
	e, err := db.LastEpoch(ctx, o)
	if err != nil {
		return err
	}
	err = Lines(c.Executed, func(l Line) error {
		b, err := l.became()
		switch {
		case err != nil:
			return err
		case b == permitted:
			return c.settle(ctx, o, l)
		case b == over && !is[permitted].Has(c.merchant(l), l.CallBackID):
			return c.end(ctx, o, l, e.Open())
		}
		return nil
	})
	if err != nil {
		return err
	}
	return o.EachRestored(ctx, func(w outbox.Withdrawal) error {
		f := Finding{Finding: NotSaid, Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State)}
		switch {
		case ends.Has(w.Merchant, w.CallBackID):
			f.Finding = EndedThere
			if c.Settle {
				if _, f.Settled, err = o.AdoptEnd(ctx, outbox.Executed{Merchant: w.Merchant, CallBackID: w.CallBackID}, outbox.WithdrawalCancelled, "the merchant", c.Now); err != nil {
					return err
				}
			}
		case c.Settle && is[nothing].Has(w.Merchant, w.CallBackID):
			return o.AdoptNothing(ctx, w.ID, c.Now)
		case !c.Settle && all.Has(w.Merchant, w.CallBackID):
			return nil
		}
		return c.Report(f)
	})
}

// end tells of a line that says that a withdrawal ended without a permit, and makes it so.
func (c Config) end(ctx context.Context, o *outbox.Outbox, l Line, open bool) error {
	f := Finding{Merchant: c.merchant(l), CallBackID: l.CallBackID, There: l.State}
	w, err := o.WithdrawalByCallBackID(ctx, f.Merchant, l.CallBackID)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	f.State = string(w.State)
	switch {
	case err != nil && !open, err == nil && w.State != outbox.WithdrawalAwaiting && w.State != outbox.WithdrawalConfirmed && w.Released == 0, w.Released == 0 && err == nil && !w.Restored && !open:
		return nil // it is in no doubt
	case w.Released != 0:
		f.Finding = EndDiffers
		return c.Report(f)
	}
	f.Finding = EndedThere
	if c.Settle {
		x := outbox.Executed{Merchant: f.Merchant, CallBackID: l.CallBackID, TenantUserID: l.TenantUserID, Details: l.details()}
		if _, f.Settled, err = o.AdoptEnd(ctx, x, outbox.WithdrawalState(l.State), "the core", c.Now); err != nil {
			f.Reason = err.Error()
			return errors.Join(c.Report(f), fmt.Errorf("%s of %s cannot be settled: %w", l.CallBackID, f.Merchant, err))
		}
	}
	return c.Report(f)
}

// settle tells of a line whose withdrawal has no permit here, and makes it have one.
func (c Config) settle(ctx context.Context, o *outbox.Outbox, l Line) error {
	f := Finding{Merchant: c.merchant(l), CallBackID: l.CallBackID, There: Sum(l.Symbol, l.Amount)}
	w, err := o.WithdrawalByCallBackID(ctx, f.Merchant, l.CallBackID)
	switch {
	case errors.Is(err, db.ErrNotFound):
		f.Finding = ExecutedUnknown
	case err != nil:
		return err
	case w.Released == 0:
		f.Finding, f.State = ExecutedNotReleased, string(w.State)
	default:
		if l.Claim != "" && l.Claim != w.Claim {
			f.Finding, f.State = PermitDiffers, string(w.State)
			return c.Report(f)
		}
		if !c.Settle || l.Permit == "" {
			return nil
		}
		f.Finding, f.State = PermitDiffers, string(w.State) // if Adopt says so
	}
	if !c.Settle {
		return c.Report(f)
	}
	_, err = o.Adopt(ctx, outbox.Executed{Merchant: f.Merchant, CallBackID: l.CallBackID, TenantUserID: l.TenantUserID, Details: l.details(),
		Claim: l.Claim, Permit: l.Permit}, "cpt_"+rand.Text(), c.Now)
	switch {
	case err == nil && f.Finding == PermitDiffers:
		return nil
	case err == nil:
		f.Settled = true
	case errors.Is(err, db.ErrUnavailable), errors.Is(err, db.ErrFull), ctx.Err() != nil:
		return err
	default:
		// What cannot be settled must not be released: nothing ends the epoch then.
		f.Reason = err.Error()
		return errors.Join(c.Report(f), fmt.Errorf("%s of %s cannot be settled: %w", l.CallBackID, f.Merchant, err))
	}
	return c.Report(f)
}
