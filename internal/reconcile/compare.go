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
// returns what the merchants' side says.
func (c Config) compare(ctx context.Context, s service) (x *Index, err error) {
	if c.Booked == "" && c.There == nil {
		return &Index{}, nil
	}
	if c.There != nil {
		if c.Merchant == "" {
			return nil, errors.New("give --merchant: the merchant that the gateway is at the service")
		}
		c.Booked, err = c.spool(ctx)
		defer os.Remove(c.Booked)
		if err != nil {
			return nil, err
		}
	}
	merchants := map[string]bool{c.Merchant: true} // whose books are read
	x, err = c.read(c.Booked, false, func(l Line) (string, flags, error) {
		if c.There == nil {
			l.Is = endOf(client.OrderState(l.State))
		}
		if l.isOrder() {
			return l.sum(), l.Is, nil
		}
		merchants[c.merchant(l)] = true
		return l.depositSum(), l.Is, nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.compareDeposits(ctx, s, x, merchants); err != nil {
		return nil, err
	}
	if c.There != nil {
		err = c.confirmed(ctx, s, x)
	}
	return x, err
}

// compareDeposits compares deposits with what the merchants booked.
func (c Config) compareDeposits(ctx context.Context, s service, x *Index, merchants map[string]bool) error {
	only := "" // the one merchant that is compared; empty: all
	if c.There != nil {
		only = c.Merchant
	}
	err := s.deposits(ctx, only, func(d client.SentDeposit) (err error) {
		f := findingOf(d)
		sent, purged := d.State == client.CallbackAccepted || d.Repeated, d.ID == ""
		is, found, agrees := x.Match(d.Merchant, depositName(d.TrackingID), f.Here)
		if sent && !found && c.There != nil {
			if purged {
				return nil // the gateway may have purged it too
			}
			if is, found, agrees, err = lookUp(ctx, c.There, d, f.Here); err != nil {
				return err
			}
		}
		switch {
		case !found && sent:
			f.Finding = SentNotBooked
			if c.Settle && !purged && d.State == client.CallbackAccepted && merchants[d.Merchant] {
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
	return x.rest(func(l Line) error {
		if l.isOrder() {
			return nil
		}
		return c.Report(Finding{Finding: BookedNotSent, Merchant: c.merchant(l), TrackingID: l.TrackingID, There: l.depositSum()})
	})
}

func findingOf(d client.SentDeposit) Finding {
	return Finding{Merchant: d.Merchant, TrackingID: d.TrackingID, State: string(d.State), Here: book.SumOf(d.Symbol, d.Amount)}
}

// lookUp asks a gateway for a deposit that came while its deposits were being read.
func lookUp(ctx context.Context, api *client.Gateway, d client.SentDeposit,
	sum string) (is flags, found, agrees bool, err error) {
	err = eachDeposit(ctx, api, client.DepositSearch{TrackingID: d.TrackingID}, func(l Line) error {
		is, found, agrees = l.Is, true, sameSum(sumOf(l.depositSum()), sumOf(sum))
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
func (c Config) confirmed(ctx context.Context, s service, x *Index) error {
	err := s.withdrawals(ctx, c.Merchant, func(w client.Withdrawal) error {
		f := Finding{Merchant: w.Merchant, CallBackID: w.CallBackID, State: string(w.State), Here: paid(w)}
		is, found, agrees := x.Match(w.Merchant, withdrawalName(w.CallBackID), f.Here)
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
	return x.rest(func(l Line) error {
		f := Finding{Merchant: c.Merchant, CallBackID: l.CallBackID, There: l.sum()}
		switch {
		case !l.isOrder():
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
	x, err := c.read(c.Added, true, func(l Line) (string, flags, error) { return l.depositSum(), 0, nil })
	if err != nil {
		return err
	}
	err = s.deposits(ctx, "", func(d client.SentDeposit) error {
		f := findingOf(d)
		if _, found, agrees := x.Match(d.Merchant, depositName(d.TrackingID), f.Here); found && !agrees {
			f.Finding = AmountDiffers
			return c.Report(f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.withdrawals(ctx, "", func(w client.Withdrawal) error {
		x.Match(w.Merchant, withdrawalName(w.CallBackID), "")
		return nil
	})
	if err != nil {
		return err
	}
	return x.rest(func(l Line) error {
		f := Finding{Finding: AddedUnknown, Merchant: c.merchant(l), CallBackID: l.CallBackID, There: l.depositSum()}
		if l.CallBackID == "" {
			f.TrackingID = l.TrackingID
		}
		return c.Report(f)
	})
}

// sum returns what both sides must agree on for a withdrawal.
func (l Line) sum() string {
	if s := l.depositSum(); s != "" && l.Address != "" {
		return s + " " + l.Address
	}
	return ""
}
