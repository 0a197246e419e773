package book

import (
	"context"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// AsTaken returns d as it was when it was taken, for the feed and the forwarded message. A decision is an event of
// its own. If it were here too, the application would credit the deposit twice.
func AsTaken(d client.DepositEntry) client.DepositEntry {
	if d.State != client.DepositTaken {
		d.State = client.DepositHeld
	}
	d.Decided, d.DecidedBy, d.Reason = 0, "", ""
	return d
}

// Order is a row of orders: what the API shows of it, and its number.
type Order struct {
	client.Order
	Seq int64
}

// Asked is what the book knows of an order that the service asks about.
type Asked struct {
	Known bool
	Order Order // if Known
	// Restored means that the book was restored and is not reconciled.
	Restored bool
	// Since is when the service first asked, or the time of the look-up if that is not recorded.
	Since db.Millis
}

// OrderChange changes an order that is still in the state From.
type OrderChange struct {
	CallBackID   string
	TenantUserID string // of the order; checked if it is to be confirmed
	From, To     client.OrderState
	By           string
	Reason       string
	OtherUser    bool // the service named a user other than the order's, so raise an alarm
	// Clock is read for a confirmation once the order is locked. The process may have stood still after its decision,
	// and the order may have expired. Nil: the caller's time is used.
	Clock func() db.Millis
	// Check returns an error if the change may not be made after all. It runs while the order is locked. Nil: nothing
	// is checked.
	Check func(context.Context, db.Querier) error
	// Ceilings are limits that a confirmation must not exceed. They hold exactly, however many nodes confirm at once. But
	// their Since is the caller's time, and other confirmations have the times of their nodes, so the windows are as exact
	// as these clocks agree.
	Ceilings []policy.Limit
}

// eventOf returns the kind of the event of an order's state.
func eventOf(s client.OrderState) client.EventKind { return client.EventKind("order." + s) }
