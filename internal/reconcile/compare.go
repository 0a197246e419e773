package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
)

// compare compares a service with what its merchants booked and with the orders of a gateway. It reads the merchant's
// side first. Whatever the service then lacks is a difference; what it sent meanwhile is looked up again by name. It
// returns the orders that ended without execution at the merchant.
func (c Config) compare(ctx context.Context, s service) (ends *Index, err error) {
	ends = &Index{}
	if c.Booked == "" && c.There == nil {
		return ends, nil
	}
	if c.There != nil && c.Merchant == "" {
		return nil, errors.New("give --merchant: the merchant that the gateway is at the service")
	}
	if c.There != nil {
		c.Booked, err = c.spool(ctx)
		defer os.Remove(c.Booked)
	}
	if err != nil {
		return nil, err
	}
	if err := c.compareDeposits(ctx, s); err != nil {
		return nil, err
	}
	if c.There != nil {
		err = c.confirmed(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	err = Lines(c.Booked, func(l Line) error {
		if _, other := orderID(l); !other && (l.Is|endOf(client.OrderState(l.State)))&ended != 0 {
			ends.Add(c.merchant(l), l.CallBackID, "", 0)
		}
		return nil
	})
	return ends, err
}

// compareDeposits compares deposits with what the merchants booked.
func (c Config) compareDeposits(ctx context.Context, s service) error {
	merchants := map[string]bool{c.Merchant: true} // whose books are read
	x, err := c.index(c.Booked, trackingID, func(l Line) (string, flags) {
		merchants[c.merchant(l)] = true
		if c.There == nil {
			l.Is = 0
		}
		return book.SumOf(l.Symbol, l.Amount), l.Is
	})
	if err != nil {
		return err
	}
	if err := c.twice(x); err != nil {
		return err
	}
	only := "" // the one merchant that is compared; empty: all
	if c.There != nil {
		only = c.Merchant
	}
	err = s.deposits(ctx, only, func(d client.SentDeposit) error {
		f := Finding{Merchant: d.Merchant, TrackingID: d.TrackingID, State: string(d.State),
			Here: book.SumOf(d.Symbol, d.Amount)}
		sent := d.State == client.CallbackAccepted || d.Repeated
		is, found, agrees := x.Match(d.Merchant, d.TrackingID, f.Here)
		if sent && !found && c.There != nil {
			if is, found, agrees, err = lookUp(ctx, c.There, d, f.Here); err != nil {
				return err
			}
		}
		switch {
		case !found && sent:
			f.Finding = SentNotBooked
			if c.Settle && d.State == client.CallbackAccepted && merchants[d.Merchant] {
				if err := s.repeat(ctx, d.ID, c.Now); err != nil {
					return fmt.Errorf("sending again what was not booked: %w", err)
				}
				f.Settled = true
			}
		case found && !agrees:
			f.Finding = AmountDiffers
		case found && sent && is&waits != 0:
			f.Finding = SentNotCounting
		default:
			return nil
		}
		return c.Report(f)
	})
	if err != nil {
		return err
	}
	// The amount of a purged deposit is no longer known. A gateway may have purged it too.
	err = s.purged(ctx, only, func(merchant, id string) error {
		if _, found, _ := x.Match(merchant, id, ""); found || c.There != nil {
			return nil
		}
		return c.Report(Finding{Finding: SentNotBooked, Merchant: merchant, TrackingID: id,
			State: string(client.CallbackAccepted)})
	})
	if err != nil {
		return err
	}
	return Lines(c.Booked, func(l Line) error {
		if _, other := trackingID(l); other || x.Matched(c.merchant(l), l.TrackingID) {
			return nil
		}
		return c.Report(Finding{Finding: BookedNotSent, Merchant: c.merchant(l), TrackingID: l.TrackingID,
			There: book.SumOf(l.Symbol, l.Amount)})
	})
}

// lookUp asks a gateway for a deposit that came while its deposits were being read.
func lookUp(ctx context.Context, api *client.Gateway, d client.SentDeposit,
	sum string) (is flags, found, agrees bool, err error) {
	err = eachDeposit(ctx, api, client.DepositSearch{TrackingID: d.TrackingID}, func(l Line) error {
		is, found, agrees = l.Is, true, sameSum(sumOf(book.SumOf(l.Symbol, l.Amount)), sumOf(sum))
		return nil
	})
	if err != nil || found {
		return is, found, agrees, err
	}
	// It may have purged the deposit. Its inbox keeps the entry for ever.
	page, err := api.Callbacks(ctx, client.InboxFilter{Type: countersign.TypeDeposited, ID: d.TrackingID},
		client.PageOptions{Limit: 1})
	found = err == nil && len(page.Items) > 0
	return is, found, found, err
}

// confirmed compares withdrawals with the orders of a gateway.
func (c Config) confirmed(ctx context.Context, s service) error {
	x, err := c.index(c.Booked, orderID, func(l Line) (string, flags) { return l.sum(), l.Is })
	if err != nil {
		return err
	}
	err = s.withdrawals(ctx, c.Merchant, func(w client.Withdrawal) error {
		f := Finding{Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State), Here: paid(w)}
		is, found, agrees := x.Match(w.Merchant, w.CallBackID, f.Here)
		if hasPermit(w) && is&confirmed == 0 { // it may have been confirmed since
			o, err := c.There.Order(ctx, w.CallBackID)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				return err
			}
			l := lineOf(o)
			is, found, agrees, f.There = is|l.Is, err == nil, sameSum(sumOf(l.sum()), sumOf(f.Here)), string(o.State)
		}
		switch {
		case hasPermit(w) && is&confirmed == 0:
			f.Finding = ExecutedNotConfirmed
		case is&executed != 0 && !hasPermit(w):
			f.Finding = ExecutedNotReleased
		case found && !agrees:
			f.Finding = AmountDiffers
		default:
			return nil
		}
		return c.Report(f)
	})
	if err != nil {
		return err
	}
	return Lines(c.Booked, func(l Line) error {
		f := Finding{Merchant: c.Merchant, CallBackID: l.CallBackID, There: l.sum()}
		switch _, other := orderID(l); {
		case other || x.Matched(c.Merchant, l.CallBackID):
			return nil
		case l.Is&executed != 0:
			f.Finding = ExecutedUnknown
		case l.Is&confirmed != 0:
			f.Finding = ConfirmedUnknown
		default:
			return nil
		}
		return c.Report(f)
	})
}

// added reports what the core has added and the service does not know. It is the only check that finds what the
// merchant has not booked and the core has not executed.
func (c Config) added(ctx context.Context, s service) error {
	if c.Added == "" {
		return nil
	}
	x, err := c.index(c.Added, coreID, nil)
	if err != nil {
		return err
	}
	err = s.deposits(ctx, "", func(d client.SentDeposit) error {
		f := Finding{Finding: AmountDiffers, Merchant: d.Merchant, TrackingID: d.TrackingID, State: string(d.State),
			Here: book.SumOf(d.Symbol, d.Amount)}
		if _, found, agrees := x.Match(d.Merchant, "deposit "+d.TrackingID, f.Here); found && !agrees {
			return c.Report(f)
		}
		return nil
	})
	if err == nil {
		err = s.purged(ctx, "", func(merchant, id string) error {
			x.Match(merchant, "deposit "+id, "")
			return nil
		})
	}
	if err == nil {
		err = s.withdrawals(ctx, "", func(w client.Withdrawal) error {
			x.Match(w.Merchant, "withdrawal "+w.CallBackID, "")
			return nil
		})
	}
	if err != nil {
		return err
	}
	return Lines(c.Added, func(l Line) error {
		if id, _ := coreID(l); x.Matched(c.merchant(l), id) {
			return nil
		}
		f := Finding{Finding: AddedUnknown, Merchant: c.merchant(l), CallBackID: l.CallBackID,
			There: book.SumOf(l.Symbol, l.Amount)}
		if l.CallBackID == "" {
			f.TrackingID = l.TrackingID
		}
		return c.Report(f)
	})
}

// coreID names a deposit or a withdrawal of the core. One index holds both.
func coreID(l Line) (id string, other bool) {
	switch {
	case l.CallBackID != "":
		id = "withdrawal " + l.CallBackID
	case l.TrackingID != "":
		id = "deposit " + l.TrackingID
	}
	return id, false
}

// sum returns what both sides must agree on for a withdrawal.
func (l Line) sum() string {
	if s := book.SumOf(l.Symbol, l.Amount); s != "" && l.Address != "" {
		return s + " " + l.Address
	}
	return ""
}
