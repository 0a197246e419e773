package book

import (
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/merchant"
)

// move returns the order's next state, whether that is a change, and the cause of an alarm to raise. to is the order
// with the members set that every change sets. A later callback never undoes an earlier one.
type move func(o, to Order) (moved Order, moves bool, why cause)

// moveOrder applies a callback to its order.
func (in *inboxTx) moveOrder(ctx context.Context, e *merchant.Entry, by move) error {
	id, at := e.Callback.OrderID(), db.MillisOf(e.At)
	o, err := findOrder(ctx, in.t, lockOrderSQL, id)
	switch {
	case isNotFound(err) && e.Callback.CallbackType().Effect() == countersign.EffectEnded && !in.restored:
		return overBeforeOrder(ctx, in.t, id, e.Callback.User(), "the service ended it before it was ordered", at)
	case isNotFound(err):
		return nil // there is no order, so no funds are frozen
	case err != nil:
		return err
	}
	if e.Callback.User() != o.TenantUserID {
		in.ledger.orderAlarm(otherUser, id, at)
		return nil
	}
	to := o
	to.Updated = at // the reason of a decision stays
	to, moves, why := by(o, to)
	in.ledger.orderAlarm(why, id, at)
	if !moves {
		return nil
	}
	kind := eventOf(to.State)
	if to.Waiting != "" {
		kind = client.EventOrderWaiting
	}
	in.ledger.event(orderEvent(kind, to, at))
	return in.storeMove(ctx, o, to)
}

// withdrawn applies EffectEnded: the order's funds become free.
func (o Order) withdrawn(to Order) (Order, bool, cause) {
	switch {
	case o.State == client.OrderExecuted:
		return o, false, endedAfterwards
	case !o.State.Undecided() && o.State != client.OrderConfirmed:
		return o, false, "" // final already: its funds are free
	}
	to.State, to.Waiting, to.Ended = client.OrderEnded, "", to.Updated
	return to, true, ""
}

// waits applies EffectWaiting: the order's funds stay frozen.
func (o Order) waits(to Order, what client.WaitingFor) (Order, bool, cause) {
	if !o.State.Undecided() && o.State != client.OrderConfirmed || o.Waiting == what {
		return o, false, "" // a later callback was applied before
	}
	to.Waiting = what
	return to, true, ""
}

// storeMove stores the change of an order by a callback. One that has ended is no longer in doubt.
func (in *inboxTx) storeMove(ctx context.Context, from, to Order) error {
	if to.State == client.OrderEnded && to.Confirmed > 0 {
		in.ledger.unspent(to)
	}
	to.Restored = to.Restored && to.Ended == 0
	return storeOrder(ctx, in.t, from, to)
}

// overBeforeOrder records that the service ended or executed a withdrawal that nobody had ordered, as RefuseUnknown
// does. Otherwise an order that is added afterwards would wait for a question that never comes, or be executed again.
func overBeforeOrder(ctx context.Context, t *db.Tx, callBackID, tenantUserID, reason string, at db.Millis) error {
	_, err := insertOrder(ctx, t, Order{Order: client.Order{CallBackID: callBackID, TenantUserID: tenantUserID,
		State: client.OrderUnknown, Reason: reason, Created: at, Updated: at, Ended: at}})
	return err
}
