package console

import (
	"strings"

	"countersign/client"
)

// stopSection freezes and thaws the service.
var stopSection = section{
	nav: navItem{"/console/stop", "Stop", "frozen"},
	pages: []page{
		{"GET /console/stop", (*visit).stop},
		{"POST /console/stop/freeze", post("frozen", confirmed("freeze", func(v *visit, _ string) (any, error) {
			return v.service.Freeze(v.r.Context(), v.form("reason"))
		}))},
		{"POST /console/stop/thaw", post("thawed", confirmed("thaw", func(v *visit, _ string) (any, error) {
			return v.service.Thaw(v.r.Context())
		}))},
	},
	notices: map[string]string{
		"frozen": "Frozen: nothing is sent, decided or released, on any node.",
		"thawed": "Thawed: everything goes on.",
	},
}

// stopPage freezes and thaws the service.
type stopPage struct {
	client.Freeze
	Values map[string]string
}

func (v *visit) stop() error {
	frozen, err := v.service.Frozen(v.r.Context())
	if err != nil {
		return err
	}
	return v.render("stop", "Stop everything", stopPage{frozen, v.values(nil)})
}

// typed returns an error unless the person has typed the word that confirms an action.
func (v *visit) typed(word string) error {
	if !strings.EqualFold(v.form("confirm"), word) {
		return refuse("type the word " + word + " to confirm")
	}
	return nil
}

// confirmed returns do, made conditional on the typed word.
func confirmed(word string, do func(v *visit, id string) (any, error)) func(*visit, string) (any, error) {
	return func(v *visit, id string) (any, error) {
		if err := v.typed(word); err != nil {
			return nil, err
		}
		return do(v, id)
	}
}
