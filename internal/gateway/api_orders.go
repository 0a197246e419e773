package gateway

import (
	"context"
	"net/http"
	"strconv"

	"countersign"
	"countersign/internal/store"
)

var orderStates = []string{
	string(store.OrderOpen), string(store.OrderHeld), string(store.OrderApproved), string(store.OrderConfirmed),
	string(store.OrderExecuted), string(store.OrderEnded), string(store.OrderDeclined), string(store.OrderCancelled),
	string(store.OrderExpired), string(store.OrderUnknown),
}

func (a *api) addOrder(c *call, in NewOrder) (any, error) {
	o, duplicate, err := a.end.AddOrder(c.r.Context(), in.stored(), c.now)
	if duplicate {
		c.status = http.StatusOK
	}
	return AddedOrder{orderOf(o), duplicate}, err
}

func (a *api) orders(c *call, _ none) (any, error) {
	out := OrderPage{Orders: []OrderStatus{}}
	list, next, err := a.end.Orders(c.r.Context(), store.OrderFilter{State: store.OrderState(c.query["state"]), TenantUserID: c.query["tenantUserId"]},
		int(c.number("limit")), c.number("cursor"))
	for _, o := range list {
		out.Orders = append(out.Orders, orderOf(o))
	}
	out.Next = cursorText(next)
	return out, err
}

// cursorText is the member next of a page.
func cursorText(seq int64) *string {
	if seq == 0 {
		return nil
	}
	text := strconv.FormatInt(seq, 10)
	return &text
}

func (a *api) order(c *call, _ none) (any, error) {
	o, err := a.end.Order(c.r.Context(), c.r.PathValue("callBackId"))
	return orderOf(o), err
}

func (a *api) approveOrder(c *call, in Decide) (any, error) {
	return c.decideOrder(in, a.end.ApproveOrder)
}

func (a *api) declineOrder(c *call, in Decide) (any, error) {
	return c.decideOrder(in, a.end.DeclineOrder)
}

func (a *api) cancelOrder(c *call, in Decide) (any, error) {
	return c.decideOrder(in, a.end.CancelOrder)
}

// decideOrder lets the owner of the token change an order.
func (c *call) decideOrder(in Decide, change func(ctx context.Context, callBackID, by, reason string, now store.Millis) (store.Order, error)) (any, error) {
	o, err := change(c.r.Context(), c.r.PathValue("callBackId"), c.token.ID, in.Reason, c.now)
	return orderOf(o), err
}

func (a *api) deposit(c *call, _ none) (any, error) {
	seq, err := c.pathSeq()
	if err != nil {
		return nil, err
	}
	d, err := a.end.Deposit(c.r.Context(), seq)
	return depositOf(d), err
}

func (a *api) creditDeposit(c *call, in Decide) (any, error) {
	return a.decideDeposit(c, in, store.DepositCredited)
}

func (a *api) rejectDeposit(c *call, in Decide) (any, error) {
	return a.decideDeposit(c, in, store.DepositRejected)
}

func (a *api) decideDeposit(c *call, in Decide, to store.DepositState) (any, error) {
	seq, err := c.pathSeq()
	if err != nil {
		return nil, err
	}
	d, err := a.end.DecideDeposit(c.r.Context(), seq, to, c.token.ID, in.Reason, c.now)
	return depositOf(d), err
}

func (a *api) callbacks(c *call, _ none) (any, error) {
	out := CallbackPage{Callbacks: []CallbackEntry{}}
	f := store.InboxFilter{Type: countersign.Type(c.number("type")), ID: c.query["id"], CallBackID: c.query["callBackId"],
		Open: c.query["settled"] == "false"}
	list, next, err := a.end.Entries(c.r.Context(), f, int(c.number("limit")), c.number("cursor"))
	for _, r := range list {
		out.Callbacks = append(out.Callbacks, callbackOf(r))
	}
	out.Next = cursorText(next)
	return out, err
}
