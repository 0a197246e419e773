package console

import (
	"slices"

	"countersign/client"
)

// withdrawalsSection shows the service's withdrawals.
var withdrawalsSection = section{
	nav:   navItem{"/console/withdrawals", "Withdrawals", "withdrawals"},
	lists: []lister{withdrawalsList},
	pages: []page{
		{"GET /console/withdrawals/{id}", (*visit).withdrawal},
		{"POST /console/withdrawals/{id}/cancel", call("cancelled", "POST /v1/withdrawals/{id}/cancel")},
		{"POST /console/withdrawals/{id}/block",
			confirmed("block", call("blocked", "POST /v1/withdrawals/{id}/block", "reason"))},
	},
	notices: map[string]string{
		"blocked":   "Blocked: it is never released.",
		"cancelled": "Cancelled. The merchant cannot confirm it any more.",
	},
}

var withdrawalsList = &list[client.WithdrawalFilter, client.Withdrawal]{
	table: table{"withdrawals", "Withdrawals",
		"No withdrawal is here. The wallet core adds one for each withdrawal that a merchant must confirm.",
		[]column{
			{"Taken", "", `{{when .Created}}`},
			{"Merchant", "long slim",
				`{{if $.May "merchant"}}<a href="/console/merchants/{{path .Merchant}}">{{.Merchant}}</a>{{else}}{{.Merchant}}{{end}}`},
			{"callBackId", "long", `<a href="/console/withdrawals/{{path .ID}}">{{text .CallBackID}}</a>`},
			{"Amount", "n long amount", `{{with or .Details .Ordered}}{{.Amount}} {{text .Symbol}}{{else}}{{text ""}}{{end}}`},
			{"To", "long addr", `{{with or .Details .Ordered}}{{text .Address}}{{else}}{{text ""}}{{end}}`},
			{"State", "long slim", `{{state .State}}{{if eq .State "awaiting"}} <span class="hint">expires {{from .Deadline}}</span>
{{- else if and .Reason (ne .Reason "accepted") (ne (print .Reason) (print .State))}} <span class="hint">{{words .Reason}}</span>{{end}}`},
		}},
	fields: []field{{name: "merchant", label: "Merchant"}, {name: "state", label: "State"},
		{name: "callBackId", label: "callBackId", hint: "with the merchant"}},
	folded: []field{{name: "tenantUserId", label: "User"}, {name: "address", label: "To address"},
		{name: "txId", label: "Transaction"}},
}

// withdrawalPage is one withdrawal, with what was ordered beside what was confirmed.
type withdrawalPage struct {
	client.Withdrawal
	Attempts []client.Attempt // of the question
	Notices  []client.Callback
	Stopped  bool // nothing of before a restore is resumed until it is reconciled
	Task     *taskView
	Values   map[string]string
}

func (v *visit) withdrawal() error {
	w := fetch[client.Withdrawal](v, client.Path("withdrawals", v.r.PathValue("id")))
	page := withdrawalPage{Withdrawal: w, Values: v.values(nil), Stopped: w.Restored && v.unreconciled(),
		Task: v.taskOf(client.TaskID(restoredOr(w.Restored, client.TaskRelease), w.ID))}
	if v.may("callback") {
		page.Attempts = fetch[client.CallbackDetail](v, client.Path("callbacks", w.Callback)).Attempts
		about, _ := fetchPage[client.Callback](v, "/v1/callbacks", pageSize,
			client.CallbackFilter{Merchant: w.Merchant, CallBackID: w.CallBackID})
		page.Notices = slices.DeleteFunc(about, func(n client.Callback) bool { return n.ID == w.Callback })
	}
	return v.render("withdrawal", "Withdrawal "+w.CallBackID, page)
}
