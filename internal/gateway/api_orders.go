package gateway

import (
	"context"
	"fmt"
	"net/http"

	"countersign/client"
	"countersign/internal/api"
)

func (g *Gateway) addOrder(c *api.Call, _ api.None, in client.NewOrder) (client.AddedOrder, error) {
	if err := g.checkOrder(in); err != nil {
		return client.AddedOrder{}, err
	}
	o, duplicate, err := g.book.AddOrder(c.R.Context(), in, c.Token.ID, c.Now)
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

// checkOrder returns faults of n that a schema cannot find.
func (g *Gateway) checkOrder(n client.NewOrder) error {
	if err := n.Details().Validate(); err != nil {
		return err
	}
	var faults api.Faults
	if most := g.c.Policy.Decimals(n.Symbol); n.Amount.Decimals() > most {
		faults.Add("body.amount", fmt.Sprintf("has more than %d decimals; [decimals] of the policy file says how many %s has",
			most, n.Symbol))
	}
	if len(n.Labels) > maxLabels {
		faults.Add("body.labels", fmt.Sprintf("has more than %d members", maxLabels))
	}
	for name, value := range n.Labels {
		problem := ""
		switch {
		case name == "" || len(name) > maxLabelName:
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

func (g *Gateway) orders(ctx context.Context, f client.OrderFilter, limit int, before int64) (orders []client.Order,
	next int64, err error) {
	list, next, err := g.lists.Orders(ctx, f, limit, before)
	for _, o := range list {
		orders = append(orders, o.Order)
	}
	return orders, next, err
}

func (g *Gateway) order(c *api.Call, _ api.None, _ api.None) (client.Order, error) {
	o, err := g.lists.Order(c.R.Context(), c.R.PathValue("callBackId"))
	return o.Order, err
}

func (g *Gateway) cancelOrder(c *api.Call, _ api.None, in client.Decide) (client.Order, error) {
	o, err := g.book.CancelOrder(c.R.Context(), c.R.PathValue("callBackId"), c.Token.ID, in.Reason, c.Now)
	return o.Order, err
}
