package reconcile

import (
	"context"
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
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
	b, done, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := c.compareDeposits(ctx, s, b); err != nil {
		return nil, err
	}
	if b.gateway != nil {
		err = c.confirmed(ctx, s, b)
	}
	if err != nil {
		return nil, err
	}
	err = Lines(b.orders, func(l Line) error {
		if _, other := orderID(l); !other && (l.Is|endOf(client.OrderState(l.State)))&ended != 0 {
			ends.Add(c.merchant(l), l.CallBackID, "", 0)
		}
		return nil
	})
	ends.Sort()
	return ends, err
}

// compareDeposits compares deposits with what the merchants booked.
func (c Config) compareDeposits(ctx context.Context, s service, b books) error {
	merchants := map[string]bool{c.Merchant: true} // whose books are read
	x, err := c.indexBooked(b, merchants)
	if err != nil {
		return err
	}
	if x.Twice() > 0 {
		if err := c.Report(Finding{Finding: BookedTwice, Count: x.Twice()}); err != nil {
			return err
		}
	}
	err = s.deposits(ctx, c.only(b), func(d client.SentDeposit) error {
		f := Finding{Merchant: d.Merchant, TrackingID: d.TrackingID, State: string(d.State), Here: Sum(d.Symbol, d.Amount)}
		sent := d.State == client.CallbackAccepted || d.Repeated
		is, found, agrees := x.Match(d.Merchant, d.TrackingID, f.Here)
		if sent && !found && b.gateway != nil {
			if is, found, agrees, err = lookUp(ctx, b.gateway, d, f.Here); err != nil {
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
	err = s.purged(ctx, c.only(b), func(merchant, id string) error {
		if _, found, _ := x.Match(merchant, id, ""); found || b.gateway != nil {
			return nil
		}
		return c.Report(Finding{Finding: SentNotBooked, Merchant: merchant, TrackingID: id, State: string(client.CallbackAccepted)})
	})
	if err != nil {
		return err
	}
	return Lines(b.deposits, func(l Line) error {
		if _, other := trackingID(l); other || x.Matched(c.merchant(l), l.TrackingID) {
			return nil
		}
		return c.Report(Finding{Finding: BookedNotSent, Merchant: c.merchant(l), TrackingID: l.TrackingID, There: Sum(l.Symbol, l.Amount)})
	})
}

// only returns the one merchant that is compared, or "" for all.
func (c Config) only(b books) string {
	if b.gateway != nil {
		return c.Merchant
	}
	return ""
}

// indexBooked reads the deposits of b, and adds the merchants whose they are.
func (c Config) indexBooked(b books, merchants map[string]bool) (*Index, error) {
	return c.index(b.deposits, trackingID, true, func(l Line) (string, flags) {
		merchants[c.merchant(l)] = true
		if b.gateway == nil {
			l.Is = 0
		}
		return Sum(l.Symbol, l.Amount), l.Is
	})
}

// lookUp asks a gateway for a deposit that came while its deposits were being read.
func lookUp(ctx context.Context, api *client.Gateway, d client.SentDeposit, sum string) (is flags, found, agrees bool, err error) {
	err = eachDeposit(ctx, api, client.DepositSearch{TrackingID: d.TrackingID}, func(l Line) error {
		is, found, agrees = l.Is, true, sameSum(sumOf(Sum(l.Symbol, l.Amount)), sumOf(sum))
		return nil
	})
	if err != nil || found {
		return is, found, agrees, err
	}
	// It may have purged the deposit. Its inbox keeps the entry for ever.
	page, err := api.Callbacks(ctx, client.InboxFilter{Type: countersign.TypeDeposited, ID: d.TrackingID}, client.PageOptions{Limit: 1})
	found = err == nil && len(page.Callbacks) > 0
	return is, found, found, err
}

// confirmed compares withdrawals with the orders of a gateway.
func (c Config) confirmed(ctx context.Context, s service, b books) error {
	x, err := c.index(b.orders, callBackID, true, func(l Line) (string, flags) { return l.sum(), l.Is })
	if err != nil {
		return err
	}
	err = s.withdrawals(ctx, c.Merchant, func(w client.Withdrawal) error {
		f := Finding{Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State), Here: paid(w)}
		is, found, agrees := x.Match(w.Merchant, w.CallBackID, f.Here)
		if hasPermit(w) && is&confirmed == 0 { // it may have been confirmed since
			o, err := b.gateway.Order(ctx, w.CallBackID)
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
	return Lines(b.orders, func(l Line) error {
		f := Finding{Merchant: c.Merchant, CallBackID: l.CallBackID, There: l.sum()}
		switch {
		case x.Matched(c.Merchant, l.CallBackID):
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
	x, err := c.index(c.Added, coreID, true, nil)
	if err != nil {
		return err
	}
	err = s.deposits(ctx, "", func(d client.SentDeposit) error {
		f := Finding{Finding: AmountDiffers, Merchant: d.Merchant, TrackingID: d.TrackingID, State: string(d.State), Here: Sum(d.Symbol, d.Amount)}
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
		f := Finding{Finding: AddedUnknown, Merchant: c.merchant(l), CallBackID: l.CallBackID, There: Sum(l.Symbol, l.Amount)}
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
	if s := Sum(l.Symbol, l.Amount); s != "" && l.Address != "" {
		return s + " " + l.Address
	}
	return ""
}
