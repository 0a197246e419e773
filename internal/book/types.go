package book

import (
	"context"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// AsTaken is d as it was when it was taken. The feed and the forwarded message tell
// of that alone: a decision is an event of its own, and told in both places a
// deposit would be credited twice.
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

// Asked says what the book knows of an order that the service asks about.
type Asked struct {
	Known bool
	Order Order // if Known
	// Restored reports whether the book was restored and is not reconciled.
	Restored bool
	// Since is when the service first asked. If that is not recorded, it is the
	// time of the look-up.
	Since db.Millis
}

// OrderChange changes an order from one state to another if it is still in the
// first.
type OrderChange struct {
	CallBackID   string
	TenantUserID string // of the order; checked if it is to be confirmed
	From, To     client.OrderState
	By           string
	Reason       string
	OtherUser    bool // the service names another user than the order's, of which an alarm tells
	// Clock is read for a confirmation when the order is locked, because the
	// process may have stood still after it decided and the order may have expired
	// meanwhile. Nil: the caller's time is used.
	Clock func() db.Millis
	// Check fails if the change may not be made after all; the order is locked. Nil: nothing is checked.
	Check func(context.Context, db.Querier) error
	// Ceilings are the limits that a confirmation must not exceed. They hold
	// exactly, however many nodes confirm orders at once.
	Ceilings []Ceiling
}

// Ceiling bounds the sum of the amounts confirmed since Since with the order's
// symbol, the order itself included: of one tenant, or of all if TenantUserID is
// empty. Since is the caller's time, and other orders were confirmed at the times of
// their nodes, so the window is as exact as these clocks agree.
type Ceiling struct {
	TenantUserID string
	Since        db.Millis
	Max          countersign.Amount // required: the zero Amount allows nothing
}

// eventOf is the kind of the events that say that an order is in a state.
func eventOf(s client.OrderState) client.EventKind { return client.EventKind("order." + s) }
