package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/jsonapi"
)

func (a *api) addOrder(c *jsonapi.Call, _ jsonapi.None, in client.NewOrder) (client.AddedOrder, error) {
	if err := checkOrder(in); err != nil {
		return client.AddedOrder{}, err
	}
	o, duplicate, err := a.book.AddOrder(c.R.Context(), storedOrder(in, c.Token.ID), c.Now)
	if duplicate {
		c.Status = http.StatusOK
	}
	if err == nil {
		c.Trace(time.Time{}, jsonapi.Traced{CallBackID: o.CallBackID})
	}
	return client.AddedOrder{Order: orderOf(o), Duplicate: duplicate}, err
}

type orderQuery struct {
	State        client.OrderState `query:"state" doc:"only in this state"`
	TenantUserID string            `query:"tenantUserId" doc:"only of this user, at most 1,024 bytes"`
	Address      string            `query:"address" doc:"only to this address, at most 1,024 bytes"`
	TxID         string            `query:"txId" doc:"only the one that this transaction executed"`
	Since        client.Time       `query:"since" doc:"only ordered or first asked for at this time or later, in RFC 3339"`
	Until        client.Time       `query:"until" doc:"only ordered or first asked for before this time, in RFC 3339"`
	page
}

// between is the time between two of the API, of which a zero one is no bound.
func between(since, until client.Time) book.Span {
	return book.Span{Since: db.Millis(since), Until: db.Millis(until)}
}

func (a *api) orders(c *jsonapi.Call, q orderQuery, _ jsonapi.None) (client.OrderPage, error) {
	out := client.OrderPage{Orders: []client.Order{}}
	list, next, err := a.lists.Orders(c.R.Context(), book.OrderFilter{State: book.OrderState(q.State), TenantUserID: q.TenantUserID, Address: q.Address,
		TxID: q.TxID, Span: between(q.Since, q.Until)},
		int(q.Limit), int64(q.Cursor))
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

func (a *api) order(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Order, error) {
	o, err := a.lists.Order(c.R.Context(), c.R.PathValue("callBackId"))
	return orderOf(o), err
}

// approval is what a person with passkeys signs: all of an order that its confirmation
// says or that led to it. None of it ever changes.
type approval struct {
	TenantUserID string            `json:"tenantUserId"`
	Amount       string            `json:"amount"`
	Symbol       string            `json:"symbol"`
	ChainName    string            `json:"chainName"`
	Address      string            `json:"address"`
	ExpiresAt    client.Time       `json:"expiresAt,omitzero"`
	Labels       map[string]string `json:"labels,omitempty"`
	OrderedBy    string            `json:"orderedBy,omitempty"`
}

func approvalOf(o book.Order) approval {
	d := o.Details
	return approval{o.TenantUserID, d.Amount.String(), d.Symbol, d.ChainName, d.Address, timeOf(o.Expires), o.Labels, o.OrderedBy}
}

// recordApproved is the kind of the record of an approval, which its statement says.
const recordApproved = "order.approved"

func (a *api) orderApproval(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Statement, error) {
	o, err := a.lists.Order(c.R.Context(), c.R.PathValue("callBackId"))
	if err != nil {
		return client.Statement{}, err
	}
	return a.passkeys.Statement(c, recordApproved, o.CallBackID, approvalOf(o))
}

// approveOrder wants the signature of a person whose token has passkeys: whoever has the
// token alone must not get past it.
func (a *api) approveOrder(c *jsonapi.Call, _ jsonapi.None, in client.Approve) (client.Order, error) {
	o, err := a.book.Order(c.R.Context(), c.R.PathValue("callBackId"))
	if err != nil {
		return client.Order{}, err
	}
	if err := a.refuseKin(c); err != nil {
		return client.Order{}, err
	}
	ctx, _, err := a.passkeys.Signed(c, recordApproved, o.CallBackID, approvalOf(o), in.Passkey)
	if err != nil {
		return client.Order{}, err
	}
	o, err = a.book.ApproveOrder(ctx, o.CallBackID, c.Token.ID, in.Reason, c.Now)
	return orderOf(o), err
}

// refuseKin fails with book.ErrOwnOrder if the token of the call comes from the one that
// ordered, unless the policy allows that the same token does both.
func (a *api) refuseKin(c *jsonapi.Call) error {
	if a.c.Policy.SelfApproval() {
		return nil
	}
	ctx := c.R.Context()
	o, err := a.book.Order(ctx, c.R.PathValue("callBackId"))
	if err != nil || o.OrderedBy == "" || o.State == book.OrderApproved { // repeating an approval changes nothing
		return err
	}
	orderer, err := jsonapi.FindToken(ctx, a.book, o.OrderedBy)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	comes, err := jsonapi.ComesFrom(ctx, a.book, c.Token, orderer)
	if err == nil && comes {
		err = book.ErrOwnOrder
	}
	return err
}

func (a *api) declineOrder(c *jsonapi.Call, _ jsonapi.None, in client.Decide) (client.Order, error) {
	return decideOrder(c, in, a.book.DeclineOrder)
}

func (a *api) cancelOrder(c *jsonapi.Call, _ jsonapi.None, in client.Decide) (client.Order, error) {
	return decideOrder(c, in, a.book.CancelOrder)
}

// decideOrder changes an order in the name of the call's token.
func decideOrder(c *jsonapi.Call, in client.Decide, change func(ctx context.Context, callBackID, by, reason string, now db.Millis) (book.Order, error)) (client.Order, error) {
	o, err := change(c.R.Context(), c.R.PathValue("callBackId"), c.Token.ID, in.Reason, c.Now)
	return orderOf(o), err
}

func (a *api) deposit(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.DepositEntry, error) {
	seq, err := c.PathSeq()
	if err != nil {
		return client.DepositEntry{}, err
	}
	d, err := a.lists.Deposit(c.R.Context(), seq)
	return depositOf(d), err
}

func (a *api) creditDeposit(c *jsonapi.Call, _ jsonapi.None, in client.Decide) (client.DepositEntry, error) {
	return a.decideDeposit(c, in, book.DepositCredited)
}

func (a *api) rejectDeposit(c *jsonapi.Call, _ jsonapi.None, in client.Decide) (client.DepositEntry, error) {
	return a.decideDeposit(c, in, book.DepositRejected)
}

func (a *api) decideDeposit(c *jsonapi.Call, in client.Decide, to book.DepositState) (client.DepositEntry, error) {
	seq, err := c.PathSeq()
	if err != nil {
		return client.DepositEntry{}, err
	}
	d, err := a.book.DecideDeposit(c.R.Context(), seq, to, c.Token.ID, in.Reason, c.Now)
	return depositOf(d), err
}

type callbackQuery struct {
	Type       string `query:"type" enum:"1,2,3,4,5,6,7" doc:"only of this type, 1 to 7"`
	ID         string `query:"id" doc:"only with this trackingId (callBackId for type 2), at most 1,024 bytes"`
	CallBackID string `query:"callBackId" doc:"only about this order: its callBackId, at most 1,024 bytes"`
	Settled    string `query:"settled" enum:"false" doc:"false: only those without a final answer"`
	page
}

func (a *api) callbacks(c *jsonapi.Call, q callbackQuery, _ jsonapi.None) (client.InboxPage, error) {
	out := client.InboxPage{Callbacks: []client.InboxEntry{}}
	t, _ := strconv.Atoi(q.Type) // one of the list, or none
	f := book.Filter{Type: countersign.Type(t), ID: q.ID, CallBackID: q.CallBackID, Open: q.Settled == "false"}
	list, next, err := a.lists.Entries(c.R.Context(), f, int(q.Limit), int64(q.Cursor))
	for _, r := range list {
		out.Callbacks = append(out.Callbacks, callbackOf(r))
	}
	out.Next = cursorText(next)
	return out, err
}
