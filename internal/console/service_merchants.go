package console

import (
	"cmp"
	"context"
	"slices"

	"countersign/client"
)

// merchantsSection has the merchants of the service.
var merchantsSection = section{
	nav:   navItem{"/console/merchants", "Merchants", "merchants"},
	lists: []lister{merchantsList},
	pages: []page{
		{"GET /console/merchants/new", (*visit).merchantNew},
		{"POST /console/merchants/new", (*visit).merchantMake},
		{"GET /console/merchants/{id}", (*visit).merchant},
		{"POST /console/merchants/{id}/pause", post("/console/merchants/{id}", "paused",
			func(ctx context.Context, v *visit, id string) (client.Merchant, error) {
				return v.service.PauseMerchant(ctx, id, v.form("reason"))
			})},
		{"POST /console/merchants/{id}/resume", post("/console/merchants/{id}", "resumed",
			func(ctx context.Context, v *visit, id string) (client.Merchant, error) {
				return v.service.ResumeMerchant(ctx, id, client.Resume{Resend: v.form("resend") != ""})
			})},
		{"GET /console/merchants/{id}/change", (*visit).merchantEdit},
		{"POST /console/merchants/{id}/change", (*visit).merchantChange},
		{"POST /console/merchants/{id}/rotation", (*visit).rotationStage},
		{"POST /console/merchants/{id}/rotation/activate", (*visit).rotationActivate},
		{"POST /console/merchants/{id}/rotation/finish", (*visit).rotationFinish},
		{"POST /console/merchants/{id}/rotation/cancel", (*visit).rotationCancel},
	},
	notices: map[string]string{
		"paused":    "Paused: callbacks are accepted and not sent.",
		"resumed":   "Resumed.",
		"changed":   "Changed. The next attempt uses it.",
		"activated": "Activated: requests are sealed with the newer keys, and answers under the older ones still count.",
		"finished":  "Finished: the older keys have ended.",
		"went-back": "The newer keys have ended. The older ones seal, alone.",
	},
}

var merchantsList = &list[struct{}, client.MerchantPage]{
	table: table{"merchants", "Merchants",
		"No merchant is here. A merchant is who gets callbacks about deposits and confirms withdrawals; " +
			"make one, and hand over what the page then shows.",
		[]column{
			{"Merchant", "long", `<a href="/console/merchants/{{path .ID}}">{{.ID}}</a>`},
			{"Name", "long", `{{text .Name}}`},
			{"State", "long", `{{state .State}}{{with .PausedReason}} <span class="hint">{{text .}}</span>{{end}}`},
			{"Reached", "long slim", `{{range .Broken}}<span class="state bad">{{.Lane}}: not reached</span> {{else}}{{with .Health}}
{{- if .FailingSince}}<span class="state bad">fails since {{when .FailingSince}}
{{- with .LastFailure}}: {{words .Reason}}{{end}}</span>
{{- else if .LastReached}}<span class="hint">yes</span>{{else}}{{text ""}}{{end}}{{else}}{{text ""}}{{end}}{{end}}`},
			{"Keys", "", `{{.Scheme}}`},
			{"Changed", "", `{{when .Updated}}`},
		}},
	read: func(v *visit, _ struct{}, o client.PageOptions) (client.MerchantPage, error) {
		return v.service.Merchants(v.r.Context(), o)
	},
	rows: func(v *visit, page client.MerchantPage) (any, error) {
		stats, err := v.numbers()
		var rows []merchantRow
		for _, m := range page.Merchants {
			rows = append(rows, merchantRow{m, broken(stats, m.ID)})
		}
		slices.SortStableFunc(rows, func(a, b merchantRow) int { return cmp.Compare(b.failing(), a.failing()) })
		return rows, err
	},
	acts: func(v *visit, _ struct{}, _ client.MerchantPage) (acts []act) {
		if v.may("createMerchant") {
			acts = append(acts, act{"New merchant", "/console/merchants/new"})
		}
		return acts
	},
}

type merchantRow struct {
	client.Merchant
	Broken []client.Breaker // lanes that could not reach it
}

// failing is 1 of a merchant that fails: it comes first.
func (m merchantRow) failing() int {
	if m.Health != nil && m.Health.FailingSince != 0 {
		return 1
	}
	return 0
}

// numbers are those of the whole service; a token that is bound to merchants sees none.
func (v *visit) numbers() (client.ServiceStats, error) {
	if !v.may("stats") {
		return client.ServiceStats{}, nil
	}
	return v.service.Stats(v.r.Context())
}

func broken(stats client.ServiceStats, merchant string) (list []client.Breaker) {
	for _, b := range stats.Breakers {
		if b.Merchant == merchant {
			list = append(list, b)
		}
	}
	return list
}

// merchantPage is one merchant.
type merchantPage struct {
	merchantRow
	Callbacks   []client.Callback
	Withdrawals []client.Withdrawal

	// When the keys were last set, as far as changes are kept; 0: not since the merchant
	// was made.
	KeySet, ResponseKeySet client.Time
	Waiting                int // changes of the merchant that wait for an approver
}

// shownSetting is a setting of a merchant and its value.
type shownSetting struct{ Label, Text string }

// Settings are what anybody may read.
func (p merchantPage) Settings() (list []shownSetting) {
	for _, s := range client.Settings() {
		if !s.Secret {
			list = append(list, shownSetting{s.Label, cmp.Or(s.Text(p.Merchant), s.None)})
		}
	}
	return list
}

// fromChanges fills in what the merchant's last changes tell.
func (v *visit) fromChanges(page *merchantPage) error {
	if !v.may("tasks") {
		return nil
	}
	about := client.TaskFilter{Kind: client.TaskChange, Merchant: page.ID}
	open, err := v.service.Tasks(v.r.Context(), about, client.PageOptions{Limit: 100})
	if err != nil {
		return err
	}
	page.Waiting = len(open.Tasks)
	about.State = client.TaskDone
	done, err := v.service.Tasks(v.r.Context(), about, client.PageOptions{Limit: 100})
	for _, t := range done.Tasks { // the newest first
		for _, m := range t.Content {
			switch {
			case m.Name == "requestKey" && m.Value == page.Fingerprint && page.KeySet == 0:
				page.KeySet = t.Due
			case m.Name == "responseKey" && m.Value == page.ResponseFingerprint && page.ResponseKeySet == 0:
				page.ResponseKeySet = t.Due
			}
		}
	}
	return err
}

// recent is how many entries of a list a merchant's page shows.
const recent = 10

func (v *visit) merchant() error {
	ctx, id := v.r.Context(), v.r.PathValue("id")
	m, err := v.service.Merchant(ctx, id)
	if err != nil {
		return err
	}
	stats, err := v.numbers()
	if err != nil {
		return err
	}
	page := merchantPage{merchantRow: merchantRow{m, broken(stats, m.ID)}}
	callbacks, err := v.service.Callbacks(ctx, client.CallbackFilter{Merchant: m.ID}, client.PageOptions{Limit: recent})
	if err != nil {
		return err
	}
	withdrawals, err := v.service.Withdrawals(ctx, client.WithdrawalFilter{Merchant: m.ID}, client.PageOptions{Limit: recent})
	if err != nil {
		return err
	}
	page.Callbacks, page.Withdrawals = callbacks.Callbacks, withdrawals.Withdrawals
	if err := v.fromChanges(&page); err != nil {
		return err
	}
	return v.render("merchant", m.ID, page)
}

func merchantPath(id string) string { return "/console/merchants/" + id }
