package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// Kind is what two sides disagree on.
type Kind string

// The kinds of findings. "Told" is what the service knows, "booked" what the merchant
// says, "executed" what the wallet core says.
const (
	ToldNotBooked        Kind = "told_not_booked"        // told and acknowledged, and the merchant has not booked it
	ToldNotCounting      Kind = "told_not_counting"      // told and acknowledged, and held or rejected at the merchant
	BookedNotTold        Kind = "booked_not_told"        // the merchant booked what this end does not know
	AmountDiffers        Kind = "amount_differs"         // both have it, with another amount or symbol, or a withdrawal with another address
	BookedTwice          Kind = "booked_twice"           // lines repeat an identifier; Count says how many
	BookedNotCounting    Kind = "booked_not_counting"    // the merchant booked a deposit that is held or was rejected
	ExecutedNotReleased  Kind = "executed_not_released"  // it was executed, and has no permit here
	ExecutedUnknown      Kind = "executed_unknown"       // it was executed, and this end does not know it
	ExecutedNotConfirmed Kind = "executed_not_confirmed" // it has a permit, and the merchant has not confirmed it
	ConfirmedUnknown     Kind = "confirmed_unknown"      // the merchant confirmed it, and the service does not know it
	PermitDiffers        Kind = "permit_differs"         // another permit was given here than the core has
	ReleasedNotExecuted  Kind = "released_not_executed"  // a permit was given here that the core does not know
	AddedUnknown         Kind = "added_unknown"          // the core added it, and the service does not know it
)

// Finding is one disagreement.
type Finding struct {
	Finding    Kind   `json:"finding"`
	Merchant   string `json:"merchant,omitempty"`
	TrackingID string `json:"trackingId,omitempty"`
	CallBackID string `json:"callBackId,omitempty"`
	State      string `json:"state,omitempty"`  // here
	Here       string `json:"here,omitempty"`   // symbol and amount
	There      string `json:"there,omitempty"`  // symbol and amount, or the state there
	Count      int    `json:"count,omitempty"`  // of BookedTwice
	Reason     string `json:"reason,omitempty"` // why it could not be settled
	Settled    bool   `json:"settled,omitempty"`
}

// Config is what Service, Remote and Gateway need.
type Config struct {
	// Booked is a file of deposits that the merchant's application has booked, Executed
	// one of withdrawals for which the wallet core had a permit. Empty: not compared.
	Booked, Executed string
	// Added is a file of deposits and withdrawals that the wallet core has added. A line
	// with a callBackId is a withdrawal. Empty: not compared.
	Added string
	// Merchant is the merchant of lines that name none. Required with There.
	Merchant string
	// There is the API of the merchant's gateway, in place of Booked: its deposits and
	// its orders are compared. Nil: not compared.
	There *client.Gateway
	// Epoch is told of the epoch of each end whose API is asked: service or gateway. Nil:
	// nobody is told.
	Epoch func(end string, e client.Epoch)
	// Settle settles what a restore left open, and ends it, and has the service tell
	// again what was told and not booked.
	Settle bool
	// Report gets each finding. Required.
	Report func(Finding) error
	// Now is the time of what is settled. Required.
	Now db.Millis
}

func (c Config) merchant(l Line) string {
	if l.Merchant != "" {
		return l.Merchant
	}
	return c.Merchant
}

// index reads a file. id gives the identifier of a line; more gives what else is kept
// of it, nil: symbol and amount.
func (c Config) index(path string, id func(Line) string, merchants bool, more func(Line) (sum string, is flags)) (*Index, error) {
	n, err := count(path)
	if err != nil {
		return nil, err
	}
	x := &Index{entries: make([]entry, 0, n)}
	err = Lines(path, func(l Line) error {
		switch {
		case id(l) == "":
			return errors.New("the identifier is missing")
		case merchants && c.merchant(l) == "":
			return errors.New("merchant is missing: give it in the line, or --merchant")
		}
		sum, is := Sum(l.Symbol, l.Amount), flags(0)
		if more != nil {
			sum, is = more(l)
		}
		x.Add(c.of(l, merchants), id(l), sum, is)
		return nil
	})
	x.Sort()
	return x, err
}

func (c Config) of(l Line, merchants bool) string {
	if merchants {
		return c.merchant(l)
	}
	return ""
}

func trackingID(l Line) string { return l.TrackingID }
func callBackID(l Line) string { return l.CallBackID }

// Service compares a service's database with the files and the gateway. It reports
// whether an epoch was open and is not any more.
func Service(ctx context.Context, o *outbox.Outbox, c Config) (ended bool, err error) {
	if c.Settle && c.Executed == "" {
		return false, errors.New("settling needs what the wallet executed: give --executed, with an empty file if it executed nothing")
	}
	if err := c.steady(ctx, nil, func() error { return c.compare(ctx, local{o}) }); err != nil {
		return false, err
	}
	if c.Executed != "" {
		if err := c.executed(ctx, o); err != nil {
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

// executed compares withdrawals with what the core executed, and settles them.
func (c Config) executed(ctx context.Context, o *outbox.Outbox) error {
	x, err := c.index(c.Executed, callBackID, true, nil)
	if err != nil {
		return err
	}
	err = o.EachWithdrawal(ctx, func(w outbox.Withdrawal) error {
		f := Finding{Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State)}
		if w.Details != nil {
			f.Here = Sum(w.Details.Symbol, w.Details.Amount)
		}
		_, found, agrees := x.Match(w.Merchant, w.CallBackID, f.Here)
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
	return Lines(c.Executed, func(l Line) error { return c.settle(ctx, o, l, x) })
}

// settle tells of a line whose withdrawal has no permit here, and makes it have one.
func (c Config) settle(ctx context.Context, o *outbox.Outbox, l Line, x *Index) error {
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

func (l Line) details() *countersign.Details {
	if l.Address == "" || !l.Amount.IsSet() {
		return nil
	}
	return &countersign.Details{Address: l.Address, ChainName: l.ChainName, Symbol: l.Symbol, Amount: l.Amount}
}

// settleMost is how many trackingIds are kept in one transaction.
const settleMost = 500

// Gateway compares a gateway's database with what the application booked. It reports
// whether an epoch was open and is not any more.
func Gateway(ctx context.Context, b *book.Book, c Config) (ended bool, err error) {
	if c.Booked == "" {
		return false, errors.New("give --booked: what the application has booked, with an empty file if it booked nothing")
	}
	x, err := c.index(c.Booked, trackingID, false, nil)
	if err != nil {
		return false, err
	}
	if x.Twice() > 0 {
		if err := c.Report(Finding{Finding: BookedTwice, Count: x.Twice()}); err != nil {
			return false, err
		}
	}
	has := func(id string) bool { return x.Has("", id) }
	if c.Settle {
		if err := b.SettleHeld(ctx, has, c.Now); err != nil {
			return false, err
		}
	}
	if err := c.booked(ctx, b, x); err != nil {
		return false, err
	}
	// Of a deposit that was purged the amount is not known any more.
	err = b.EachPurged(ctx, func(id string) error {
		if _, found, _ := x.Match("", id, ""); found {
			return nil
		}
		return c.Report(Finding{Finding: ToldNotBooked, TrackingID: id, State: string(book.DepositTaken)})
	})
	if err != nil {
		return false, err
	}
	var lost []string
	keep := func(most int) error {
		if !c.Settle || len(lost) < most {
			return nil
		}
		err := b.BookedBefore(ctx, lost)
		lost = lost[:0]
		return err
	}
	err = Lines(c.Booked, func(l Line) error {
		if x.Matched("", l.TrackingID) {
			return nil
		}
		lost = append(lost, l.TrackingID)
		if err := c.Report(Finding{Finding: BookedNotTold, TrackingID: l.TrackingID, There: Sum(l.Symbol, l.Amount), Settled: c.Settle}); err != nil {
			return err
		}
		if !c.Settle {
			lost = lost[:0]
		}
		return keep(settleMost)
	})
	if err = errors.Join(err, keep(1)); err != nil || !c.Settle {
		return false, err
	}
	return b.Reconcile(ctx, has, c.Now)
}

// booked compares the deposits of a book with what the application booked.
func (c Config) booked(ctx context.Context, b *book.Book, x *Index) error {
	for after := int64(0); ; {
		list, err := b.Deposits(ctx, after, 1000)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, d := range list {
			after = d.Seq
			counts := d.State == book.DepositTaken || d.State == book.DepositCredited
			f := Finding{TrackingID: d.Deposit.TrackingID, State: string(d.State), Here: Sum(d.Deposit.Symbol, d.Deposit.Amount)}
			switch _, found, agrees := x.Match("", d.Deposit.TrackingID, f.Here); {
			case !found && counts:
				f.Finding = ToldNotBooked
			case found && !agrees:
				f.Finding = AmountDiffers
			case found && !counts && d.DecidedBy != book.ByReconcile:
				f.Finding = BookedNotCounting
			default:
				continue
			}
			if err := c.Report(f); err != nil {
				return err
			}
		}
	}
}
