package console

import "countersign/client"

// stopSection freezes and thaws the service.
var stopSection = section{
	nav: navItem{"/console/stop", "Stop", "frozen"},
	pages: []page{
		{"GET /console/stop", (*visit).stop},
		{"POST /console/stop/freeze", confirmed("freeze", call("frozen", "POST /v1/freeze", "reason"))},
		{"POST /console/stop/thaw", confirmed("thaw", call("thawed", "POST /v1/thaw"))},
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
	return v.render("stop", "Stop everything", stopPage{fetch[client.Freeze](v, "/v1/freeze"), v.values(nil)})
}
