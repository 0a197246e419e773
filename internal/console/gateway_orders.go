package console

import "countersign/client"

// ordersSection shows the gateway's orders.
var ordersSection = section{
	nav:   navItem{"/console/orders", "Orders", "orders"},
	lists: []lister{ordersList},
	pages: []page{
		{"GET /console/orders/{id}", (*visit).order},
		{"POST /console/orders/{id}/cancel", call("cancelled-order", "POST /v1/orders/{id}/cancel", "reason")},
	},
	notices: map[string]string{
		"cancelled-order": "Cancelled. The service is told so when it asks.",
	},
}

var ordersList = &list[client.OrderFilter, client.Order]{
	table: table{"orders", "Orders",
		"No order is here. The merchant's systems order each withdrawal before the service asks for it.",
		[]column{
			{"Ordered", "", `{{when .Created}}`},
			{"callBackId", "long", `<a href="/console/orders/{{path .CallBackID}}">{{text .CallBackID}}</a>`},
			{"User", "long slim", `{{text .TenantUserID}}`},
			{"Amount", "n long amount", `{{if .Amount.IsSet}}{{.Amount}} {{text .Symbol}}{{else}}{{text ""}}{{end}}`},
			{"To", "long addr", `{{text .Address}}{{with .ChainName}} <span class="hint">{{text .}}</span>{{end}}`},
			{"State", "", `{{state .State}}`},
			{"Reason", "long", `{{text .Reason}}`},
		}},
	fields: []field{{name: "tenantUserId", label: "User"},
		{name: "address", label: "To address"}, {name: "state", label: "State"}},
	folded: []field{{name: "txId", label: "Transaction"}},
}

// orderPage is one order: what a person needs to decide on it, and its history.
type orderPage struct {
	client.Order
	thingView
	Ruling    *client.OrderRuling // nil: the session's token may not see it
	Address   history             // of orders to the same address
	User      history             // of the user's other orders
	Undecided bool
	Stopped   bool // nothing is decided until a restore is reconciled
	Values    map[string]string
}

// history is the result of earlier orders.
type history struct {
	Orders []client.Order // the newest first, without the one that is shown
	More   bool
	Other  int // of them, how many are of another user, or to another address
}

// historySize is how many earlier orders a page shows.
const historySize = 20

func (v *visit) history(f client.OrderFilter, of client.Order) (h history) {
	if f.Address == "" && f.TenantUserID == "" {
		return h
	}
	list, more := fetchPage[client.Order](v, "/v1/orders", historySize+1, f)
	for _, o := range list {
		if o.CallBackID == of.CallBackID || len(h.Orders) == historySize {
			continue
		}
		h.Orders = append(h.Orders, o)
		if o.TenantUserID != of.TenantUserID || o.Address != of.Address {
			h.Other++
		}
	}
	h.More = more
	return h
}

func (v *visit) order() error {
	id := v.r.PathValue("id")
	o := fetch[client.Order](v, client.Path("orders", id))
	page := orderPage{Order: o, Undecided: o.State.Undecided(), Values: v.values(nil)}
	task := client.TaskID(restoredOr(o.Restored, client.TaskOrder), id)
	page.thingView = v.thingView(task, o, &client.InboxFilter{CallBackID: id})
	if v.may("orderRuling") && o.State != client.OrderUnknown {
		ruling := fetch[client.OrderRuling](v, client.Path("orders", id, "ruling"))
		page.Ruling = &ruling
	}
	page.Stopped = (page.Undecided || o.Restored) && v.unreconciled()
	page.Address = v.history(client.OrderFilter{Address: o.Address}, o)
	page.User = v.history(client.OrderFilter{TenantUserID: o.TenantUserID}, o)
	return v.render("order", "Order "+id, page)
}

// unreconciled reports whether the database was restored from a backup and is not reconciled.
func (v *visit) unreconciled() bool {
	return v.may("epoch") && fetch[client.Epoch](v, "/v1/epoch").Open
}
