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
		{"POST /console/freeze", (*visit).freeze},
		{"POST /console/thaw", (*visit).thaw},
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

func (v *visit) freeze() error {
	if err := v.typed("freeze"); err != nil {
		return err
	}
	if _, err := v.service.Freeze(v.r.Context(), v.form("reason")); err != nil {
		return err
	}
	return v.done("/console/stop", "frozen")
}

func (v *visit) thaw() error {
	if err := v.typed("thaw"); err != nil {
		return err
	}
	if _, err := v.service.Thaw(v.r.Context()); err != nil {
		return err
	}
	return v.done("/console/stop", "thawed")
}
