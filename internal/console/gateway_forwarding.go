package console

// forwardingSection shows what the gateway forwards to the application.
var forwardingSection = section{
	nav: navItem{"/console/forwarding", "Forwarding", "forwarding"},
	pages: []page{
		{"GET /console/forwarding", func(v *visit) error {
			state, err := v.gateway.Forwarding(v.r.Context())
			if err != nil {
				return err
			}
			return v.render("forwarding", "Forwarding", state)
		}},
		{"POST /console/forwarding/retry", post("sent-again", func(v *visit, _ string) (any, error) {
			return v.gateway.RetryForwards(v.r.Context())
		})},
	},
	notices: map[string]string{"sent-again": "Due now."},
}
