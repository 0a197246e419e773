package console

import (
	"context"

	"countersign/client"
)

// forwardingSection has what the gateway forwards to the application.
var forwardingSection = section{
	nav: navItem{"/console/forwarding", "Forwarding", "forwarding"},
	pages: []page{
		{"GET /console/forwarding", (*visit).forwarding},
		{"POST /console/forwarding/retry", post("/console/forwarding", "sent-again",
			func(ctx context.Context, v *visit, _ string) (client.RetriedForwards, error) {
				return v.gateway.RetryForwards(ctx)
			})},
		{"POST /console/forwarding/{id}/retry", post("/console/forwarding", "sent-again",
			func(ctx context.Context, v *visit, id string) (client.Forward, error) {
				return v.gateway.RetryForward(ctx, id)
			})},
		{"POST /console/forwarding/{id}/skip", post("/console/forwarding?state=skipped", "skipped",
			func(ctx context.Context, v *visit, id string) (client.Forward, error) {
				return v.gateway.SkipForward(ctx, id, v.form("reason"))
			})},
	},
	notices: map[string]string{
		"sent-again": "Due now.",
		"skipped":    "Given up: the application is not told of it.",
	},
}

// forwardingPage is how far the application was told.
type forwardingPage struct {
	client.Forwarding
	List   []client.Forward
	Given  bool   // the list is of those that were given up
	Next   string // the address of the next page
	Names  map[string]string
	Values map[string]string
}

func (v *visit) forwarding() error {
	ctx := v.r.Context()
	state, err := v.gateway.Forwarding(ctx)
	if err != nil {
		return err
	}
	page := forwardingPage{Forwarding: state, Given: v.query("state") == "skipped", Values: v.values(nil)}
	f := client.ForwardFilter{State: "failed"}
	if page.Given {
		f.State = "skipped"
	}
	list, done, err := readList(v, func(o client.PageOptions) (client.ForwardsPage, error) {
		return v.gateway.Forwards(ctx, f, o)
	})
	if err != nil || done {
		return err
	}
	page.List = list.Forwards
	page.Next, _ = v.nextPage(list.Next, len(list.Forwards), listSpan{}, "state")
	if page.Names, err = v.names(); err != nil {
		return err
	}
	return v.render("forwarding", "Forwarding", page)
}
