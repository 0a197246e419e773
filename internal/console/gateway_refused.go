package console

import (
	"strconv"

	"countersign/client"
)

// refusedSection has the pages of the callbacks that the gateway refused. They are listed as tasks.
var refusedSection = section{pages: []page{{"GET /console/refused/{seq}", (*visit).refusal}}}

// refusalPage is one callback that was refused.
type refusalPage struct {
	client.RefusedCallback
	Names map[string]string // of tokens
	Task  *taskView
}

func (v *visit) refusal() error {
	r, err := v.gateway.RefusedCallback(v.r.Context(), v.seq())
	if err != nil {
		return err
	}
	page := refusalPage{RefusedCallback: r}
	if page.Names, err = v.names(); err != nil {
		return err
	}
	if page.Task, err = v.taskOf(client.TaskRefused, strconv.FormatInt(r.ID, 10)); err != nil {
		return err
	}
	return v.render("refusal", "Refused callback "+strconv.FormatInt(r.ID, 10), page)
}
