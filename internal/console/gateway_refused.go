package console

import (
	"html/template"
	"slices"
	"strconv"

	"countersign/client"
)

// refusedSection has the callbacks that the gateway refused.
var refusedSection = section{
	nav: navItem{"/console/refused", "Refused", "refused"},
	pages: []page{
		{"GET /console/refused", (*visit).refusals},
		{"GET /console/refused/retry", (*visit).refusedAll},
		{"POST /console/refused/retry", (*visit).refusedAllDone},
		{"GET /console/refused/dismiss", (*visit).refusedAll},
		{"POST /console/refused/dismiss", (*visit).refusedAllDone},
		{"GET /console/refused/{seq}", (*visit).refusal},
		{"POST /console/refused/{seq}/retry", (*visit).refusalRetry},
		{"POST /console/refused/{seq}/dismiss", (*visit).refusalDismiss},
	},
	deeds: map[string]string{
		"retried":     "Taken: it counts as if it had come now.",
		"dismissed":   "Dismissed: nothing is done about it.",
		"retry-all":   "Tried again: those that were taken count. These are still refused.",
		"dismiss-all": "Dismissed: nothing is done about those that matched.",
	},
}

// refusalsPage is the list of callbacks that were refused.
type refusalsPage struct {
	Filter  client.RefusedFilter
	States  []client.RefusedState
	Reasons []client.RefusalReason
	Refused []client.RefusedCallback
	Next    string // the address of the next page
	Partial bool   // the page ended before it was full

	Open  bool         // one of the list is
	Query template.URL // the filter as a query, for deciding on all open ones that match
}

func (v *visit) refusals() error {
	page := refusalsPage{States: client.RefusedState("").Values(), Reasons: client.RefusalReason("").Values(),
		Filter: client.RefusedFilter{State: client.RefusedState(v.query("state")), Reason: client.RefusalReason(v.query("reason")), CallbackID: v.query("callbackId")}}
	list, done, err := readList(v, func(o client.PageOptions) (client.RefusedPage, error) {
		return v.gateway.Refused(v.r.Context(), page.Filter, o)
	})
	if err != nil || done {
		return err
	}
	page.Refused = list.Refused
	page.Open = slices.ContainsFunc(page.Refused, func(r client.RefusedCallback) bool { return r.State == client.RefusedOpen })
	_, kept := refusedFilter(v.r.URL.Query())
	page.Query = template.URL(kept.Encode())
	page.Next, page.Partial = v.nextPage(list.Next, len(list.Refused), listSpan{}, "state", "reason", "callbackId")
	return v.render("refusals", "Refused", page)
}

// refusalPage is one callback that was refused.
type refusalPage struct {
	client.RefusedCallback
	Names  map[string]string // of tokens
	Values map[string]string
}

func (v *visit) refusal() error {
	r, err := v.gateway.RefusedCallback(v.r.Context(), v.seq())
	if err != nil {
		return err
	}
	page := refusalPage{RefusedCallback: r, Values: v.values(nil)}
	if page.Names, err = v.names(); err != nil {
		return err
	}
	return v.render("refusal", "Refused callback "+strconv.FormatInt(r.ID, 10), page)
}

func (v *visit) refusalRetry() error {
	return decideOn(v, "refused", v.gateway.RetryRefused, "retried")
}

func (v *visit) refusalDismiss() error {
	return decideOn(v, "refused", v.gateway.DismissRefused, "dismissed")
}
