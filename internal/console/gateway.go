package console

import (
	"net/http"

	"countersign/client"
)

// NewGateway makes the console of the gateway. It starts nothing.
func NewGateway(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "gateway", title: "countersign gateway",
		nav: []navItem{
			{"/console/alarms", "Alarms", "alarms"},
			{"/console/tokens", "Tokens", "tokens"},
		},
		pages: []page{
			{"GET /console/{$}", func(v *visit) error {
				http.Redirect(v.w, v.r, "/console/alarms", http.StatusSeeOther)
				return nil
			}},
		},
		connect: func(v *visit, c client.Config) (err error) { v.gateway, err = client.NewGateway(c); return err },
		top:     (*visit).gatewayTop,
	})
}

// gatewayTop is what every page of the gateway's console shows.
type gatewayTop struct {
	Alarms int // that nobody has acknowledged
}

func (v *visit) gatewayTop() (any, error) {
	var top gatewayTop
	if v.may("alarms") {
		open, err := v.gateway.OpenAlarms(v.r.Context(), client.FeedOptions{Limit: 100})
		if err != nil {
			return nil, err
		}
		top.Alarms = len(open.Alarms)
	}
	return top, nil
}
