package console

import (
	"strconv"

	"countersign/client"
)

// refusedSection has the pages of refused callbacks, which are listed as tasks.
var refusedSection = section{pages: []page{{"GET /console/refused/{seq}", (*visit).refusal}}}

func (v *visit) refusal() error {
	r := fetch[client.RefusedCallback](v, client.Path("refused", v.seq()))
	id := strconv.FormatInt(r.ID, 10)
	return v.thing("refusal", "Refused callback "+id, client.TaskID(client.TaskRefused, id), r, nil)
}
