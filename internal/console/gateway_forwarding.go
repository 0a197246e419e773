package console

import "countersign/client"

// forwardingSection shows what the gateway forwards to the application.
var forwardingSection = section{
	nav: navItem{"/console/forwarding", "Forwarding", "forwarding"},
	pages: []page{
		{"GET /console/forwarding", func(v *visit) error {
			return v.render("forwarding", "Forwarding", fetch[client.Forwarding](v, "/v1/forwarding"))
		}},
		{"POST /console/forwarding/retry", call("sent-again", "POST /v1/forwarding/retry")},
	},
	notices: map[string]string{"sent-again": "Due now."},
}
