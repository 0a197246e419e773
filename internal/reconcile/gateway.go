package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
)

// settleMost bounds the deposits recorded in one transaction.
const settleMost = 500

// Gateway compares a gateway's database with what the application booked and with the states that it gives for its
// orders. It reports whether it ended an open epoch.
func Gateway(ctx context.Context, b *book.Book, c Config) (ended bool, err error) {
	if c.Booked == "" {
		return false, errors.New("give --booked: what the application has booked and ordered, with an empty file if it booked nothing")
	}
	if err := c.checkOrders(ctx, b); err != nil {
		return false, err
	}
	c.alone = true
	x, err := c.read(c.Booked, false, func(l Line) (string, flags, error) {
		if l.isOrder() {
			return "", l.orderState(), nil
		}
		return l.depositSum(), 0, nil
	})
	if err != nil {
		return false, err
	}
	said, err := c.said(x)
	if err != nil {
		return false, err
	}
	if c.Settle {
		if err := b.SettleHeld(ctx, said, c.Now); err != nil {
			return false, err
		}
	}
	if err := c.booked(ctx, b, x); err != nil {
		return false, err
	}
	if err := c.lost(ctx, b, x); err != nil {
		return false, err
	}
	settled, err := c.orders(ctx, b, x)
	if err != nil || !c.Settle || !settled {
		return false, err
	}
	return b.Reconcile(ctx, said, c.Now)
}

// checkOrders reads every line before anything is settled. A line that would open an order again must say open. The
// details in a line that changes an order must be those of the order: it could be about another one.
func (c Config) checkOrders(ctx context.Context, b *book.Book) error {
	e, err := db.LastEpoch(ctx, b)
	if err != nil {
		return err
	}
	return Lines(c.Booked, func(l Line) error {
		state := client.OrderState(l.State)
		if !l.isOrder() || state == "" {
			return nil
		}
		if err := l.checkOrder(); err != nil {
			return err
		}
		if state.Undecided() && state != client.OrderOpen {
			return fmt.Errorf("state %q does not say what became of it: write open if nothing did", l.State)
		}
		o, err := b.Order(ctx, l.CallBackID)
		if errors.Is(err, db.ErrNotFound) || err == nil && !o.Restored && !e.Open() {
			return nil // it changes nothing, or makes the order anew
		}
		if err != nil {
			return err
		}
		known := o.Details()
		return l.checkDetails("order", o.TenantUserID, &known)
	})
}

// said returns what the application says of deposits, by their names and their transfers.
func (c Config) said(x *Index) (book.Said, error) {
	const any, unknown = "*", "?"
	transfers := &Index{}
	index := func(n int64) string {
		if n < 0 {
			return unknown
		}
		return strconv.FormatInt(n, 10)
	}
	err := Lines(c.Booked, func(l Line) error {
		b := l.booked()
		if b.Payment != "" {
			transfers.Add(b.Payment, any, "", 0)
		}
		if b.Transfer != "" {
			transfers.Add(b.Transfer, any, "", 0)
			transfers.Add(b.Transfer, index(b.TxIndex), "", 0)
		}
		return nil
	})
	return book.Said{
		Booked: func(id string) bool { return x.Has("", depositName(id)) },
		Transfer: func(t, payment string, n int64) bool {
			if payment != "" && transfers.Has(payment, any) {
				return true
			}
			if n < 0 {
				return transfers.Has(t, any)
			}
			return transfers.Has(t, index(n)) || transfers.Has(t, unknown)
		},
	}, err
}

// lost reports deposits that the application booked and the book does not know, and keeps them.
func (c Config) lost(ctx context.Context, b *book.Book, x *Index) error {
	var list []book.Booked
	keep := func(most int) error {
		if len(list) < most {
			return nil
		}
		err := b.BookedBefore(ctx, list)
		list = list[:0]
		return err
	}
	err := x.rest(func(l Line) error {
		if l.isOrder() {
			return nil
		}
		if known, err := b.IsBookedBefore(ctx, l.TrackingID); err != nil || known {
			return err // settled before
		}
		if c.Settle {
			list = append(list, l.booked())
		}
		if err := c.Report(Finding{Finding: BookedNotSent, TrackingID: l.TrackingID, There: l.depositSum(),
			Settled: c.Settle}); err != nil {
			return err
		}
		return keep(settleMost)
	})
	return errors.Join(err, keep(1))
}

// orders adopts what became of orders, and reports those of which no line says it. A file may have several lines for an
// order, as the feed of events does: an end counts before a confirmation, and that before open. settled is false if a
// line is incomplete and could not be settled. The others are settled, and the epoch stays open until the line is
// mended.
func (c Config) orders(ctx context.Context, b *book.Book, x *Index) (settled bool, err error) {
	e, err := db.LastEpoch(ctx, b)
	if err != nil {
		return false, err
	}
	settled = true
	err = Lines(c.Booked, func(l Line) error {
		if !l.isOrder() || l.State == "" || l.orderState() < x.says("", withdrawalName(l.CallBackID)) {
			return nil // of another thing, without a state, or another line says more
		}
		err := c.order(ctx, b, l, client.OrderState(l.State), e.Open())
		if errors.Is(err, db.ErrInvalid) {
			settled = false
			return c.Report(Finding{Finding: EndedThere, CallBackID: l.CallBackID, There: l.State, Reason: err.Error()})
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return settled, b.EachRestored(ctx, func(o book.Order) error {
		if !c.Settle && x.Has("", withdrawalName(o.CallBackID)) {
			return nil
		}
		return c.Report(Finding{Finding: NotSaid, CallBackID: o.CallBackID, State: string(o.State),
			Here: book.SumOf(o.Symbol, o.Amount)})
	})
}

// orderState returns what the line of an order says: ended, confirmed, or neither.
func (l Line) orderState() flags {
	switch state := client.OrderState(l.State); {
	case state == client.OrderConfirmed:
		return confirmed
	case state == "" || state.Undecided():
		return 0
	}
	return confirmed | ended
}

// order compares an order with what the application says of it.
func (c Config) order(ctx context.Context, b *book.Book, l Line, state client.OrderState, open bool) error {
	f := Finding{CallBackID: l.CallBackID, There: l.State}
	o, err := b.Order(ctx, l.CallBackID)
	known := err == nil
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	if f.State = string(o.State); known {
		f.Here = book.SumOf(o.Symbol, o.Amount)
	}
	// The service reported it since the restore, which lost its confirmation.
	unconfirmed := open && o.State == client.OrderExecuted && state == o.State && o.Confirmed == 0
	final := known && !o.State.Undecided() && o.State != client.OrderConfirmed && !unconfirmed
	ends := !state.Undecided() && state != client.OrderConfirmed
	switch {
	case final && ends && (state != o.State || l.otherTx(o.TxID)):
		f.Finding = EndDiffers
		return c.Report(f)
	case final, !open && !o.Restored, known && state == o.State && !o.Restored && !unconfirmed:
		return nil // it is in no doubt
	case !known && state.Undecided():
		f.Finding = AddedUnknown
		return c.Report(f)
	case ends || !known || o.State != state && !state.Undecided():
		f.Finding = EndedThere
	case o.Restored && state == client.OrderOpen:
		f.Finding = Reopened
	}
	if c.Settle {
		d := client.NewOrder{CallBackID: l.CallBackID, TenantUserID: l.TenantUserID}
		if details := l.details(); details != nil {
			d = d.Paying(*details)
		}
		adopted, err := b.AdoptOrder(ctx, book.Became{NewOrder: d, State: state, TxID: l.TxID,
			Confirmed: db.Millis(l.Confirmed)}, c.Now)
		if err != nil {
			return fmt.Errorf("%s cannot be settled: %w", l.CallBackID, err)
		}
		f.Settled = adopted
	}
	if f.Finding == "" {
		return nil
	}
	return c.Report(f)
}

// booked compares the deposits of a book with what the application booked.
func (c Config) booked(ctx context.Context, b *book.Book, x *Index) error {
	compare := func(f Finding, counts, settled bool) error {
		switch _, found, agrees := x.Match("", depositName(f.TrackingID), f.Here); {
		case !found && counts:
			f.Finding = SentNotBooked
		case found && !agrees:
			f.Finding = AmountDiffers
		case found && !counts && !settled:
			f.Finding = BookedNotCounting
		default:
			return nil
		}
		return c.Report(f)
	}
	for after := int64(0); ; {
		list, err := b.Deposits(ctx, after, 1000)
		if err != nil {
			return err
		}
		for _, d := range list {
			after = d.Seq
			f := Finding{TrackingID: d.TrackingID, State: string(d.State), Here: book.SumOf(d.Symbol, d.Amount)}
			counts := d.State == client.DepositTaken || d.State == client.DepositCredited
			if err := compare(f, counts, d.DecidedBy == book.ByReconcile); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			break
		}
	}
	// The amount of a purged deposit is no longer known.
	return b.EachPurged(ctx, func(id string) error {
		return compare(Finding{TrackingID: id, State: string(client.DepositTaken)}, true, false)
	})
}
