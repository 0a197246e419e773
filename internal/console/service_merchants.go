package console

import (
	"cmp"

	"countersign/client"
)

// merchantsSection shows the merchants of the service.
var merchantsSection = section{
	nav:   navItem{"/console/merchants", "Merchants", "merchants"},
	lists: []lister{merchantsList},
	pages: []page{
		{"GET /console/merchants/new", (*visit).merchantNew},
		{"POST /console/merchants/new", (*visit).merchantMake},
		{"GET /console/merchants/{id}", (*visit).merchant},
		{"POST /console/merchants/{id}/pause", call("paused", "POST /v1/merchants/{id}/pause", "reason")},
		{"POST /console/merchants/{id}/resume", call("resumed", "POST /v1/merchants/{id}/resume", "resend?")},
		{"POST /console/merchants/{id}/test", (*visit).merchantTest},
		{"GET /console/merchants/{id}/change", (*visit).merchantEdit},
		{"POST /console/merchants/{id}/change", (*visit).merchantChange},
	},
	notices: map[string]string{
		"paused":  "Paused: callbacks are accepted and not sent.",
		"resumed": "Resumed.",
		"changed": "Changed. The next attempt uses it.",
	},
}

var merchantsList = &list[struct{}, client.Merchant]{
	table: table{"merchants", "Merchants",
		"No merchant is here. A merchant is who gets callbacks about deposits and confirms withdrawals; " +
			"make one, and hand over what the page then shows.",
		[]column{
			{"Merchant", "long", `<a href="/console/merchants/{{path .ID}}">{{.ID}}</a>`},
			{"Name", "long", `{{text .Name}}`},
			{"State", "long", `{{state .State}}{{with .PausedReason}} <span class="hint">{{text .}}</span>{{end}}`},
			{"Reached", "long slim", `{{with .Health}}
{{- if .FailingSince}}<span class="state bad">fails since {{when .FailingSince}}
{{- with .LastFailure}}: {{words .Reason}}{{end}}</span>
{{- else if .LastReached}}<span class="hint">yes</span>{{else}}{{text ""}}{{end}}{{else}}{{text ""}}{{end}}`},
			{"Keys", "", `{{.Scheme}}`},
			{"Changed", "", `{{when .Updated}}`},
		}},
	acts: func(v *visit, _ struct{}, _ client.List[client.Merchant]) (acts []act) {
		if v.may("createMerchant") {
			acts = append(acts, act{"New merchant", "/console/merchants/new"})
		}
		return acts
	},
}

// merchantPage is one merchant.
type merchantPage struct {
	client.Merchant
	Callbacks   []client.Callback
	Withdrawals []client.Withdrawal
	Waiting     int // changes of the merchant that wait for an approver
}

// shownSetting is a merchant's setting with its value.
type shownSetting struct{ Label, Text string }

// Settings returns the settings that anybody may read.
func (p merchantPage) Settings() (list []shownSetting) {
	for _, s := range client.Settings() {
		if !s.Secret {
			list = append(list, shownSetting{s.Label, cmp.Or(s.Text(p.Merchant), s.None)})
		}
	}
	return list
}

// recent is the number of entries of each list on a merchant's page.
const recent = 10

func (v *visit) merchant() error {
	m := fetch[client.Merchant](v, client.Path("merchants", v.r.PathValue("id")))
	page := merchantPage{Merchant: m}
	page.Callbacks, _ = fetchPage[client.Callback](v, "/v1/callbacks", recent, client.CallbackFilter{Merchant: m.ID})
	if v.may("withdrawals") {
		page.Withdrawals, _ = fetchPage[client.Withdrawal](v, "/v1/withdrawals", recent,
			client.WithdrawalFilter{Merchant: m.ID})
	}
	if v.may("tasks") {
		waiting, _ := fetchPage[client.Task](v, "/v1/tasks", 100,
			client.TaskFilter{Kind: client.TaskChange, Merchant: m.ID})
		page.Waiting = len(waiting)
	}
	return v.render("merchant", m.ID, page)
}

// merchantTest sends a test deposit and shows it.
func (v *visit) merchantTest() error {
	sent, err := send[client.Accepted](v, client.Path("merchants", v.r.PathValue("id"), "test"), nil)
	if err != nil {
		return err
	}
	return v.done("/console/callbacks/"+sent.ID, "resent")
}
