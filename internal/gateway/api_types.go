package gateway

import (
	"fmt"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
)

func orderOf(o book.Order) client.Order {
	return client.Order{
		CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, Address: o.Details.Address, ChainName: o.Details.ChainName,
		Symbol: o.Details.Symbol, Amount: o.Details.Amount, ExpiresAt: api.TimeOf(o.Expires), Labels: o.Labels,
		State: o.State, OrderedBy: o.OrderedBy, Reason: o.Reason, DecidedBy: o.DecidedBy, Waiting: client.WaitingFor(o.Waiting.Report()), TxID: o.TxID,
		Created: api.TimeOf(o.Created), Updated: api.TimeOf(o.Updated), Confirmed: api.TimeOf(o.Confirmed), Ended: api.TimeOf(o.Ended), Restored: o.Restored,
	}
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

func storedOrder(n client.NewOrder, by string) book.NewOrder {
	s := book.NewOrder{CallBackID: n.CallBackID, TenantUserID: n.TenantUserID, Labels: n.Labels, Expires: db.Never, OrderedBy: by,
		Details: countersign.Details{Address: n.Address, ChainName: n.ChainName, Symbol: n.Symbol, Amount: n.Amount}}
	if n.ExpiresAt != 0 {
		s.Expires = db.Millis(n.ExpiresAt)
	}
	return s
}
