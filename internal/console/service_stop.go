package console

import (
	"context"
	"strings"

	"countersign/client"
)

// stopSection freezes and thaws the service.
var stopSection = section{
	nav: navItem{"/console/stop", "Stop", "frozen"},
	pages: []page{
		{"GET /console/stop", (*visit).stop},
		{"POST /console/stop/freeze", post("/console/stop", "frozen", confirmed("freeze",
			func(v *visit, ctx context.Context, _ string) (client.Freeze, error) {
				return v.service.Freeze(ctx, v.form("reason"))
			}))},
		{"POST /console/stop/thaw", post("/console/stop", "thawed", confirmed("thaw",
			func(v *visit, ctx context.Context, _ string) (client.Freeze, error) { return v.service.Thaw(ctx) }))},
	},
	notices: map[string]string{
		"frozen": "Frozen: nothing is sent, decided or released, on any node.",
		"thawed": "Thawed: everything goes on.",
	},
}

// stopPage freezes the service and thaws it.
type stopPage struct {
	client.Freeze
	Values map[string]string
}

func (v *visit) stop() error {
	frozen, err := v.service.Frozen(v.r.Context())
	if err != nil {
		return err
	}
	page := stopPage{Freeze: frozen, Values: v.values(nil)}
	return v.render("stop", "Stop everything", page)
}

// typed fails unless the person has typed the word that confirms an act.
func (v *visit) typed(word string) error {
	if !strings.EqualFold(v.form("confirm"), word) {
		return refuse("type the word " + word + " to confirm")
	}
	return nil
}

// confirmed is do where the person has typed the word that confirms it.
func confirmed[T any](word string, do func(v *visit, ctx context.Context, id string) (T, error)) func(*visit, context.Context, string) (T, error) {
	return func(v *visit, ctx context.Context, id string) (none T, err error) {
		if err := v.typed(word); err != nil {
			return none, err
		}
		return do(v, ctx, id)
	}
}
