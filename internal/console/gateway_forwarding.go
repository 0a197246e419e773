package console

import "countersign/client"

// forwardingSection shows what the gateway forwards to the application.
var forwardingSection = section{
	nav: navItem{"/console/forwarding", "Forwarding", "forwarding"},
	pages: []page{
		{"GET /console/forwarding", func(v *visit) error {
			state, err := read[client.Forwarding](v, "/v1/forwarding")
			if err != nil {
				return err
			}
			return v.render("forwarding", "Forwarding", state)
		}},
		{"POST /console/forwarding/retry", call("sent-again", "POST /v1/forwarding/retry")},
	},
	notices: map[string]string{"sent-again": "Due now."},
}
