package book

import (
	"cmp"
	"context"
	"fmt"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Became says what became of an order, according to the application.
type Became struct {
	client.NewOrder // what the application knows of it; if the book has the order, CallBackID suffices
	State           client.OrderState
	TxID            string
	// Confirmed is when the order was confirmed. 0 means now, so that the limits count it for as long as possible.
	Confirmed db.Millis
}

// AdoptOrder moves a restored order, or one that was added again since, to the state that the application reports. An
// order that has ended here does not change. An order that the service has reported as executed since the restore gets
// only the time of its confirmation. A known order that is not in doubt does not change.
func (b *Book) AdoptOrder(ctx context.Context, x Became, now db.Millis) (adopted bool, err error) {
	if err := db.CheckTexts("callBackId", x.CallBackID, "tenantUserId", x.TenantUserID, "txId", x.TxID,
		"address", x.Address, "chainName", x.ChainName, "symbol", x.Symbol); err != nil {
		return false, err
	}
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		var was client.OrderState // empty: not known
		adopted = false
		e, err := db.LastEpoch(ctx, t)
		if err != nil {
			return err
		}
		o, err := findOrder(ctx, t, lockOrderSQL, x.CallBackID)
		if isNotFound(err) {
			if x.State.Undecided() || !e.Open() {
				return nil
			}
			whole := x.TenantUserID != "" && x.Details().Validate() == nil
			if !whole && x.State == client.OrderConfirmed {
				return &db.ItemError{Member: "address",
					Err: fmt.Errorf("tenantUserId, address, chainName, symbol or amount is %w: the order is not known here",
						db.ErrInvalid)}
			}
			o = Ordered(x.NewOrder, "", now)
			_, err = insertOrder(ctx, t, o)
		} else {
			was = o.State
		}
		if err != nil {
			return err
		}
		to, l := o, ledger{}
		to.Restored = false
		valid := o.Details().Validate() == nil
		switch {
		case was == client.OrderExecuted && x.State == was && o.Confirmed == 0 && valid && e.Open():
			// Only the time of its confirmation is missing.
		case !o.State.Undecided() && o.State != client.OrderConfirmed || !o.Restored && !e.Open() ||
			was != "" && x.State == o.State && !o.Restored:
			return nil
		case x.State.Undecided() || x.State == o.State: // nothing became of it
			adopted = true
			return storeOrder(ctx, t, o, to)
		default:
			to.State, to.Reason, to.DecidedBy, to.TxID, to.Updated, to.Waiting = x.State, string(client.ReasonRestored),
				ByReconcile, x.TxID, now, ""
			if to.State != client.OrderConfirmed {
				to.Ended = now
			}
		}
		adopted = true
		counts := to.State == client.OrderConfirmed || to.State == client.OrderExecuted
		switch {
		case counts && o.Confirmed == 0 && valid:
			to.Confirmed = cmp.Or(x.Confirmed, now)
			l.spent(to)
		case !counts && o.Confirmed > 0:
			to.State = client.OrderEnded // it was confirmed, so the service ended it
			l.unspent(o)
		}
		if err := l.recountAll(ctx, t, to); err != nil {
			return err
		}
		if err := storeOrder(ctx, t, o, to); err != nil {
			return err
		}
		if to.State != o.State {
			l.event(orderEvent(eventOf(to.State), to, now))
		}
		return l.write(ctx, t)
	})
	return adopted, err
}

// ResumeOrder records that a person has checked a restored order and that nothing became of it. It is then decided
// like any other. Repeating it changes nothing. It returns an error until the restore is reconciled.
func (b *Book) ResumeOrder(ctx context.Context, callBackID, by, reason string, now db.Millis) (o Order, err error) {
	if err := db.CheckTexts("reason", reason, "by", by); err != nil {
		return Order{}, err
	}
	err = b.writeFeeds(ctx, func(ctx context.Context, t *db.Tx) error {
		if o, err = findOrder(ctx, t, lockOrderSQL, callBackID); err != nil || !o.Restored {
			return err
		}
		if err := checkReconciled(ctx, t); err != nil {
			return err
		}
		was := o
		o.Restored = false
		if err := storeOrder(ctx, t, was, o); err != nil {
			return err
		}
		return journal.AddAbout(ctx, t, journal.OrderResumed, callBackID, now,
			journal.Event{CallBackID: callBackID, State: string(o.State), Reason: reason, DecidedBy: by})
	})
	b.WakeHere(TopicOrders)
	return o, err
}

// RestoredOrders returns a page of the orders from before a restore of which nobody has said what became of them; see
// list.
func (b *Book) RestoredOrders(ctx context.Context, limit int, before int64) ([]Order, int64, error) {
	restored := []member{{is: true, walk: "restored <> 0"}}
	return list(ctx, b, "orders", orderColumns, restored, limit, before, func(o Order) int64 { return o.Seq }, scanOrder)
}

// EachRestored calls fn for each of RestoredOrders. fn may use b.
func (b *Book) EachRestored(ctx context.Context, fn func(Order) error) error {
	return db.EachPage(func(before int64) ([]Order, int64, error) { return b.RestoredOrders(ctx, 500, before) }, fn)
}
