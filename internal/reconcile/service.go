package reconcile

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Service compares a service's database with the files and the gateway. It reports whether it closed an open epoch.
func Service(ctx context.Context, o *outbox.Outbox, c Config) (closed bool, err error) {
	if c.Settle && c.Executed == "" {
		return false, errors.New("settling needs what the wallet executed: give --executed, with an empty file if it executed nothing")
	}
	if err := c.checkFiles(); err != nil {
		return false, err
	}
	e, err := db.LastEpoch(ctx, o)
	if err != nil {
		return false, err
	}
	var core *Index
	if c.Executed != "" {
		if core, err = c.readExecuted(ctx, o, e.Open()); err != nil {
			return false, err
		}
	}
	var merchants *Index
	err = c.steady(ctx, nil, func() (err error) {
		merchants, err = c.compare(ctx, local{o})
		return err
	})
	if err != nil {
		return false, err
	}
	if c.Executed != "" {
		if err := c.executed(ctx, o, core, merchants, e.Open()); err != nil {
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

// became returns what a line of the core says. Only the word open says that nothing became of a withdrawal: a
// withdrawal whose permit came later also had the states awaiting and confirmed of the API.
func (l Line) became() (flags, error) {
	switch client.WithdrawalState(l.State) {
	case "":
		return permitted, nil
	case client.WithdrawalReleased:
		return permitted, l.checkEnd(false)
	case client.WithdrawalExecuted:
		return permitted | executed, nil
	case client.WithdrawalFailed:
		return permitted | failed, l.checkEnd(false)
	case client.WithdrawalCancelled, client.WithdrawalDeclined, client.WithdrawalExpired, client.WithdrawalBlocked,
		client.WithdrawalLapsed:
		return ended, l.checkEnd(true)
	case "open":
		return untouched, l.checkEnd(true)
	case client.WithdrawalAwaiting, client.WithdrawalConfirmed:
		return 0, fmt.Errorf("state %q does not say what became of it: write open if nothing did and it had no permit, else cancelled, executed or failed", l.State)
	}
	return 0, fmt.Errorf("state %q is not known: open if nothing became of it, cancelled, executed or failed", l.State)
}

// readExecuted reads the core's file. It returns an error for the first line that must not be settled: one that
// contradicts itself, another line, or the details known here of a withdrawal that it would reopen or end.
func (c Config) readExecuted(ctx context.Context, o *outbox.Outbox, open bool) (*Index, error) {
	x, err := c.read(c.Executed, true, func(l Line) (sum string, is flags, err error) {
		if l.CallBackID == "" {
			return "", 0, errors.New("the identifier is missing: give callBackId")
		}
		if is, err = l.became(); is&permitted != 0 {
			sum = l.depositSum()
		}
		return sum, is, err
	})
	if err != nil {
		return nil, err
	}
	return x, Lines(c.Executed, func(l Line) error {
		is, _ := l.became()
		all := x.says(c.merchant(l), withdrawalName(l.CallBackID))
		switch {
		case is&failed != 0 && all&executed != 0, is&ended != 0 && all&permitted != 0:
			return fmt.Errorf("another line says that %s was executed or had a permit: leave out the one that is not so",
				l.CallBackID)
		case all&permitted != 0:
			return nil
		}
		w, err := o.WithdrawalByCallBackID(ctx, c.merchant(l), l.CallBackID)
		if errors.Is(err, db.ErrNotFound) || err == nil && !w.Restored && !open {
			return nil // it changes nothing
		}
		if err != nil {
			return err
		}
		return l.checkDetails("withdrawal", w.TenantUserID, cmp.Or(w.Details, w.Ordered))
	})
}

// executed compares withdrawals with what the core says became of them, and settles them. merchants is what their
// merchants say.
func (c Config) executed(ctx context.Context, o *outbox.Outbox, core, merchants *Index, open bool) error {
	err := o.EachWithdrawal(ctx, func(w outbox.Withdrawal) error {
		f := Finding{Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State)}
		if w.Details != nil {
			f.Here = book.SumOf(w.Details.Symbol, w.Details.Amount)
		}
		is, _, agrees := core.Match(w.Merchant, withdrawalName(w.CallBackID), f.Here)
		switch {
		case is&permitted != 0 && !agrees:
			f.Finding = AmountDiffers
		case is&permitted == 0 && hasPermit(w.Withdrawal):
			f.Finding = ReleasedNotExecuted
		default:
			return nil // one without a permit is reported with its line
		}
		return c.Report(f)
	})
	if err != nil {
		return err
	}
	err = Lines(c.Executed, func(l Line) error {
		switch is, _ := l.became(); {
		case is&ended != 0:
			return c.end(ctx, o, l, open)
		case is&permitted != 0:
			return c.settle(ctx, o, l, is)
		}
		return nil
	})
	if err != nil {
		return err
	}
	restored, err := o.RestoredWithdrawals(ctx)
	if err != nil {
		return err
	}
	for _, w := range restored {
		f := Finding{Finding: NotSaid, Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State)}
		name := withdrawalName(w.CallBackID)
		switch is := core.says(w.Merchant, name); {
		case merchants.says(w.Merchant, name)&ended != 0:
			f.Finding = EndedThere
			if c.Settle {
				if f.Settled, err = o.AdoptEnd(ctx, outbox.Executed{Merchant: w.Merchant, CallBackID: w.CallBackID},
					client.WithdrawalCancelled, "the merchant", c.Now); err != nil {
					return err
				}
			}
		case is&(permitted|ended) != 0:
			if !c.Settle {
				continue // reported with its line
			}
		case is&untouched != 0:
			f.Finding, f.Settled = Reopened, c.Settle
			if d := cmp.Or(w.Details, w.Ordered); d != nil {
				f.Here = book.SumOf(d.Symbol, d.Amount)
			}
			if c.Settle {
				if err := o.ResumeWithdrawal(ctx, w.ID, string(client.ReasonRestored), true, c.Now); err != nil {
					return err
				}
			}
		}
		if err := c.Report(f); err != nil {
			return err
		}
	}
	return nil
}

// end reports a line that says that a withdrawal ended without a permit, and settles it.
func (c Config) end(ctx context.Context, o *outbox.Outbox, l Line, open bool) error {
	f := Finding{Merchant: c.merchant(l), CallBackID: l.CallBackID, There: l.State}
	w, err := o.WithdrawalByCallBackID(ctx, f.Merchant, l.CallBackID)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	f.State = string(w.State)
	switch {
	case err != nil && !open, err == nil && w.State != client.WithdrawalAwaiting &&
		w.State != client.WithdrawalConfirmed && w.Released == 0, w.Released == 0 && err == nil && !w.Restored && !open:
		return nil // it is in no doubt
	case w.Released != 0:
		f.Finding = EndDiffers
		return c.Report(f)
	}
	f.Finding = EndedThere
	if c.Settle {
		x := outbox.Executed{Merchant: f.Merchant, CallBackID: l.CallBackID, TenantUserID: l.TenantUserID,
			Details: l.details()}
		if f.Settled, err = o.AdoptEnd(ctx, x, client.WithdrawalState(l.State), "the core", c.Now); err != nil {
			f.Reason = err.Error()
			return errors.Join(c.Report(f), fmt.Errorf("%s of %s cannot be settled: %w", l.CallBackID, f.Merchant, err))
		}
	}
	return c.Report(f)
}

// settle reports a line whose withdrawal has no permit here, and records the permit. It also reports a withdrawal that
// ended differently here.
func (c Config) settle(ctx context.Context, o *outbox.Outbox, l Line, is flags) error {
	f := Finding{Merchant: c.merchant(l), CallBackID: l.CallBackID, There: l.depositSum()}
	w, err := o.WithdrawalByCallBackID(ctx, f.Merchant, l.CallBackID)
	switch {
	case errors.Is(err, db.ErrNotFound):
		f.Finding = ExecutedUnknown
	case err != nil:
		return err
	case w.Released == 0:
		f.Finding, f.State = ExecutedNotReleased, string(w.State)
	default:
		if l.Claim != "" && l.Claim != w.Holder {
			f.Finding, f.State = PermitDiffers, string(w.State)
			return c.Report(f)
		}
		if w.State == client.WithdrawalExecuted && (is&failed != 0 || l.otherTx(w.TxID)) || w.State == client.WithdrawalFailed &&
			(is&executed != 0 || l.TxID != "") {
			f.Finding, f.State, f.There = EndDiffers, string(w.State), strings.TrimSpace(l.State+" "+l.TxID)
			return c.Report(f)
		}
		if w.State == client.WithdrawalReleased && is != permitted {
			if err := c.Report(Finding{Finding: OutcomeUnknown, Merchant: f.Merchant, CallBackID: l.CallBackID,
				State: string(w.State), There: l.State}); err != nil {
				return err
			}
		}
		if !c.Settle || l.Permit == "" {
			return nil
		}
		f.Finding, f.State = PermitDiffers, string(w.State) // if Adopt says so
	}
	if !c.Settle {
		return c.Report(f)
	}
	err = o.Adopt(ctx, outbox.Executed{Merchant: f.Merchant, CallBackID: l.CallBackID, TenantUserID: l.TenantUserID,
		Details: l.details(), Claim: l.Claim, Permit: l.Permit}, "cpt_"+rand.Text(), c.Now)
	switch {
	case err == nil && f.Finding == PermitDiffers:
		return nil
	case err == nil:
		f.Settled = true
	case errors.Is(err, db.ErrUnavailable), errors.Is(err, db.ErrFull), ctx.Err() != nil:
		return err
	default:
		// A withdrawal that cannot be settled must not be released, so the epoch stays open.
		f.Reason = err.Error()
		return errors.Join(c.Report(f), fmt.Errorf("%s of %s cannot be settled: %w", l.CallBackID, f.Merchant, err))
	}
	return c.Report(f)
}
