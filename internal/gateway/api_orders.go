package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
)

func (a *server) addOrder(c *api.Call, _ api.None, in client.NewOrder) (client.AddedOrder, error) {
	if err := a.checkOrder(in); err != nil {
		return client.AddedOrder{}, err
	}
	o, duplicate, err := a.book.AddOrder(c.R.Context(), in, c.Token.ID, c.Now)
	if duplicate {
		c.Status = http.StatusOK
	}
	if err == nil {
		c.Trace(o.CallBackID, "")
	}
	return client.AddedOrder{Order: o.Order, Duplicate: duplicate}, err
}

// The bounds of labels.
const (
	maxLabels     = 32
	maxLabelName  = 64
	maxLabelValue = 200
)

// checkOrder names faults of n that a schema cannot find.
func (a *server) checkOrder(n client.NewOrder) error {
	var faults api.Faults
	if !countersign.Legible(n.Address) {
		faults.Add("body.address", "has a space or a character that nobody sees")
	}
	for member, text := range map[string]string{"body.chainName": n.ChainName, "body.symbol": n.Symbol} {
		if !countersign.VisibleASCII(text) {
			faults.Add(member, "has a character that is not visible ASCII")
		}
	}
	if most := a.c.Policy.Decimals(n.Symbol); n.Amount.Decimals() > most {
		faults.Add("body.amount", fmt.Sprintf("has more than %d decimals; [decimals] of the policy file says how many %s has", most, n.Symbol))
	}
	if !n.Amount.IsPositive() {
		faults.Add("body.amount", "is not above 0")
	}
	if len(n.Labels) > maxLabels {
		faults.Add("body.labels", fmt.Sprintf("has more than %d members", maxLabels))
	}
	for name, value := range n.Labels {
		problem := ""
		switch {
		case name == "" || len(name) > maxLabelName || strings.IndexByte(name, 0) >= 0:
			problem = fmt.Sprintf("has a member without a name of 1 to %d bytes", maxLabelName)
		case len(value) > maxLabelValue:
			problem = fmt.Sprintf("has a member longer than %d bytes", maxLabelValue)
		}
		if problem != "" {
			faults.Add("body.labels", problem)
			break
		}
	}
	return faults.Err()
}

type orderQuery struct {
	State        client.OrderState `query:"state" doc:"only in this state"`
	TenantUserID string            `query:"tenantUserId" doc:"only of this user, at most 1,024 bytes"`
	Address      string            `query:"address" doc:"only to this address, at most 1,024 bytes"`
	TxID         string            `query:"txId" doc:"only the one that this transaction executed"`
	Since        client.Time       `query:"since" doc:"only ordered or first asked for at this time or later, in RFC 3339"`
	Until        client.Time       `query:"until" doc:"only ordered or first asked for before this time, in RFC 3339"`
	api.SeqPage
}

// between is the time between two of the API, of which a zero one is no bound.
func between(since, until client.Time) book.Span {
	return book.Span{Since: db.Millis(since), Until: db.Millis(until)}
}

func (a *server) orders(c *api.Call, q orderQuery, _ api.None) (client.OrderPage, error) {
	out := client.OrderPage{Orders: []client.Order{}}
	list, next, err := a.lists.Orders(c.R.Context(), book.OrderFilter{State: client.OrderState(q.State), TenantUserID: q.TenantUserID, Address: q.Address,
		TxID: q.TxID, Span: between(q.Since, q.Until)},
		q.Limit, q.Cursor)
	for _, o := range list {
		out.Orders = append(out.Orders, o.Order)
	}
	out.Next = api.NextSeq(next)
	return out, err
}

func (a *server) order(c *api.Call, _ api.None, _ api.None) (client.Order, error) {
	o, err := a.lists.Order(c.R.Context(), c.R.PathValue("callBackId"))
	return o.Order, err
}

func (a *server) cancelOrder(c *api.Call, _ api.None, in client.Decide) (client.Order, error) {
	return decideOrder(c, in, a.book.CancelOrder)
}

// decideOrder changes an order in the name of the call's token.
func decideOrder(c *api.Call, in client.Decide, change func(ctx context.Context, callBackID, by, reason string, now db.Millis) (book.Order, error)) (client.Order, error) {
	o, err := change(c.R.Context(), c.R.PathValue("callBackId"), c.Token.ID, in.Reason, c.Now)
	return o.Order, err
}

type callbackQuery struct {
	Type       countersign.Type `query:"type" doc:"only of this type"`
	ID         string           `query:"id" doc:"only with this trackingId (callBackId for type 2), at most 1,024 bytes"`
	CallBackID string           `query:"callBackId" doc:"only about this order: its callBackId, at most 1,024 bytes"`
	Settled    string           `query:"settled" enum:"false" doc:"false: only those without a final answer"`
	api.SeqPage
}

func (a *server) callbacks(c *api.Call, q callbackQuery, _ api.None) (client.InboxPage, error) {
	f := book.Filter{Type: q.Type, ID: q.ID, CallBackID: q.CallBackID, Open: q.Settled == "false"}
	list, next, err := a.lists.Entries(c.R.Context(), f, q.Limit, q.Cursor)
	return client.InboxPage{Callbacks: api.OrEmpty(list), Next: api.NextSeq(next)}, err
}
