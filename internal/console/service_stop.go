package console

import (
	"strings"

	"countersign/client"
)

// stopPage freezes the service and thaws it.
type stopPage struct {
	client.Freeze
	Reason   string // what was typed
	Problems []string
}

func (v *visit) stop() error { return v.showStop(200, "", nil) }

func (v *visit) showStop(status int, reason string, problems []string) error {
	frozen, err := v.service.Frozen(v.r.Context())
	if err != nil {
		return err
	}
	return v.renderAs(status, "stop", "Stop everything", stopPage{frozen, reason, problems})
}

// typed says whether the person has typed the word that confirms an act.
func (v *visit) typed(word string) bool { return strings.EqualFold(v.form("confirm"), word) }

func (v *visit) freeze() error {
	reason := v.form("reason")
	if !v.typed("freeze") {
		return v.showStop(422, reason, []string{"Type the word freeze to confirm."})
	}
	if _, err := v.service.Freeze(v.r.Context(), reason); err != nil {
		if statusOf(err) >= 500 {
			return err
		}
		return v.showStop(statusOf(err), reason, sentences(err))
	}
	return v.done("/console/stop", "frozen")
}

func (v *visit) thaw() error {
	if !v.typed("thaw") {
		return v.showStop(422, "", []string{"Type the word thaw to confirm."})
	}
	if _, err := v.service.Thaw(v.r.Context()); err != nil {
		return err
	}
	return v.done("/console/stop", "thawed")
}
