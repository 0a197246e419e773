package console

import (
	"context"

	"countersign/client"
)

// forwardingSection has what the gateway forwards to the application.
var forwardingSection = section{
	nav:   navItem{"/console/forwarding", "Forwarding", "forwarding"},
	lists: []lister{forwardingList},
	pages: []page{
		{"POST /console/forwarding/retry", post("/console/forwarding", "sent-again",
			func(v *visit, ctx context.Context, _ string) (client.RetriedForwards, error) {
				return v.gateway.RetryForwards(ctx)
			})},
		{"POST /console/forwarding/{id}/retry", post("/console/forwarding", "sent-again",
			func(v *visit, ctx context.Context, id string) (client.Forward, error) {
				return v.gateway.RetryForward(ctx, id)
			})},
		{"POST /console/forwarding/{id}/skip", post("/console/forwarding?state=skipped", "skipped",
			func(v *visit, ctx context.Context, id string) (client.Forward, error) {
				return v.gateway.SkipForward(ctx, id, v.form("reason"))
			})},
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
