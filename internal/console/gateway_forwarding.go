package console

import "countersign/client"

// forwardingSection has what the gateway forwards to the application.
var forwardingSection = section{
	nav:   navItem{"/console/forwarding", "Forwarding", "forwarding"},
	lists: []lister{forwardingList},
	pages: []page{
		{"POST /console/forwarding/retry", post("sent-again", func(v *visit, _ string) (any, error) {
			return v.gateway.RetryForwards(v.r.Context())
		})},
		{"POST /console/forwarding/{id}/retry", post("sent-again", func(v *visit, id string) (any, error) {
			return v.gateway.RetryForward(v.r.Context(), id)
		})},
		{"POST /console/forwarding/{id}/skip", func(v *visit) error {
			if _, err := v.gateway.SkipForward(v.r.Context(), v.r.PathValue("id"), v.form("reason")); err != nil {
				return err
			}
			return v.done("/console/forwarding?state=skipped", "skipped")
		}},
	},
	notices: map[string]string{
		"sent-again": "Due now.",
		"skipped":    "Given up: the application is not told of it.",
	},
}

// forwardingView is how far the application was told.
type forwardingView struct {
	client.Forwarding
	Given bool // the list is of those that were given up
}

var forwardingList = &list[client.ForwardFilter, client.ForwardsPage]{
	table: table{name: "forwarding", title: "Forwarding"},
	read: func(v *visit, f client.ForwardFilter, o client.PageOptions) (client.ForwardsPage, error) {
		return v.gateway.Forwards(v.r.Context(), f, o)
	},
	form: func(v *visit) (any, error) {
		state, err := v.gateway.Forwarding(v.r.Context())
		return forwardingView{state, v.query("state") == "skipped"}, err
	},
}
