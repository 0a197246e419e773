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

const adoptOrderSQL = `
UPDATE orders SET state = $2, reason = $3, decided_by = $4, tx_id = $5, updated = $6, confirmed = $7, ended = $8, waiting = '', restored = 0
WHERE call_back_id = $1`

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
		if err == nil && was == client.OrderExecuted && x.State == was && o.Confirmed == 0 && e.Open() {
			adopted = true
			return confirmBefore(ctx, t, o, x.Confirmed, now)
		}
		if err != nil || !o.State.Undecided() && o.State != client.OrderConfirmed || !o.Restored && !e.Open() ||
			was != "" && x.State == o.State && !o.Restored {
			return err
		}
		from := o
		adopted = true
		if x.State.Undecided() || x.State == o.State { // nothing became of it
			_, err := t.Exec(ctx, resumeOrderSQL, o.CallBackID)
			return err
		}
		o.State, o.Reason, o.DecidedBy, o.TxID, o.Updated, o.Waiting, o.Restored = x.State, string(client.ReasonRestored),
			ByReconcile, x.TxID, now, "", false
		if o.State != client.OrderConfirmed {
			o.Ended = now
		}
		counts := o.State == client.OrderConfirmed || o.State == client.OrderExecuted
		l := ledger{}
		switch {
		case counts && from.Confirmed == 0 && o.Details().Validate() == nil:
			o.Confirmed = cmp.Or(x.Confirmed, now)
			l.spent(o)
		case !counts && from.Confirmed > 0:
			o.State = client.OrderEnded // it was confirmed, so the service ended it
			l.unspent(from)
		}
		if err := l.recountAll(ctx, t, o); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, adoptOrderSQL, o.CallBackID, string(o.State), o.Reason, o.DecidedBy, o.TxID,
			int64(o.Updated), int64(o.Confirmed), int64(o.Ended)); err != nil {
			return err
		}
		countMoved(t, from.State, o.State)
		l.event(orderEvent(eventOf(o.State), o, now))
		return l.write(ctx, t)
	})
	return adopted, err
}

const confirmBeforeSQL = `UPDATE orders SET confirmed = $2, restored = 0 WHERE call_back_id = $1`

// confirmBefore sets the time of confirmation of an executed order, which the restore lost.
func confirmBefore(ctx context.Context, t *db.Tx, o Order, at, now db.Millis) error {
	o.Confirmed = cmp.Or(at, now)
	l := ledger{}
	if o.Details().Validate() == nil {
		l.spent(o)
	}
	if err := l.recountAll(ctx, t, o); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, confirmBeforeSQL, o.CallBackID, int64(o.Confirmed)); err != nil {
		return err
	}
	return l.write(ctx, t)
}

const resumeOrderSQL = `UPDATE orders SET restored = 0 WHERE call_back_id = $1 AND restored <> 0`

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
		if _, err := t.Exec(ctx, resumeOrderSQL, callBackID); err != nil {
			return err
		}
		o.Restored = false
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
	for before, more := int64(0), true; more; more = before > 0 {
		list, next, err := b.RestoredOrders(ctx, 500, before)
		if err != nil {
			return err
		}
		for _, o := range list {
			if err := fn(o); err != nil {
				return err
			}
		}
		before = next
	}
	return nil
}
