package console

import (
	"slices"
	"strconv"

	"countersign"
	"countersign/client"
)

// depositsSection shows the deposits that the gateway took.
var depositsSection = section{
	nav:   navItem{"/console/deposits", "Deposits", "deposits"},
	lists: []lister{depositsList},
	pages: []page{
		{"GET /console/deposits/{seq}", (*visit).deposit},
	},
}

var depositsList = &list[client.DepositSearch, client.DepositEntry]{
	table: table{"deposits", "Deposits",
		"No deposit is here. Each deposit that the service tells of is one, in the order in which they were taken.",
		[]column{
			{"No.", "n", `<a href="/console/deposits/{{.Seq}}">{{.Seq}}</a>`},
			{"Taken", "", `{{when .Taken}}`},
			{"trackingId", "long", `<a href="/console/deposits/{{.Seq}}">{{text .TrackingID}}</a>`},
			{"User", "long slim", `{{text .TenantUserID}}`},
			{"Amount", "n long amount", `{{.Amount}} {{text .Symbol}}`},
			{"To", "long addr", `{{text .ToAddress}} <span class="hint">{{text .ChainName}}</span>`},
			{"Transaction", "", `{{short .TxID}}`},
			{"State", "", `{{state .State}}`},
		}},
	fields: []field{{name: "trackingId", label: "trackingId"}, {name: "txId", label: "Transaction"},
		{name: "tenantUserId", label: "User"}, {name: "state", label: "State"}},
	folded: []field{{name: "address", label: "To address"}},
	api:    "/v1/deposits/search",
}

// seq returns the number in the path, or 0 for anything else.
func (v *visit) seq() int64 {
	n, _ := strconv.ParseInt(v.r.PathValue("seq"), 10, 64)
	return n
}

func (v *visit) deposit() error {
	d := fetch[client.DepositEntry](v, client.Path("deposits", v.seq()))
	return v.thing("deposit", "Deposit "+d.TrackingID, client.DepositTask(d.Seq), d,
		&client.InboxFilter{Type: countersign.TypeDeposited, ID: d.TrackingID})
}

// thingView is the page of an item of the gateway that a person may have to decide on.
type thingView struct {
	Thing     any
	Task      *taskView
	Callbacks []client.InboxEntry // about it, the oldest first
}

// thingView fetches what the pages of such items share: the task, and the callbacks that about selects.
func (v *visit) thingView(task string, thing any, about *client.InboxFilter) thingView {
	view := thingView{Thing: thing, Task: v.taskOf(task)}
	if about != nil && v.may("callbacks") {
		view.Callbacks, _ = fetchPage[client.InboxEntry](v, "/v1/callbacks", pageSize, *about)
		slices.Reverse(view.Callbacks)
	}
	return view
}

func (v *visit) thing(name, title, task string, thing any, about *client.InboxFilter) error {
	return v.render(name, title, v.thingView(task, thing, about))
}
