package console

import (
	"countersign/client"
)

// NewGateway makes the console of the gateway. It starts nothing.
func NewGateway(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "gateway", title: "countersign gateway",
		sections: []section{anySection, tasksSection, ordersSection, depositsSection, addressesSection, refusedSection, policySection, forwardingSection, alarmsSection, auditSection, tokensSection},
		connect: func(v *visit, c client.Config) (err error) {
			v.gateway, err = client.NewGateway(c)
			v.api = v.gateway
			return err
		},
		top: (*visit).gatewayTop,
	})
}

// gatewayTop is what every page of the gateway's console shows.
type gatewayTop struct {
	Alarms, Tasks string // how many are open; empty: none
}

func (v *visit) gatewayTop() (any, error) {
	var top gatewayTop
	var err error
	top.Alarms, top.Tasks, err = v.openCounts()
	return top, err
}

// names returns the names of tokens by their ids, as far as the session's token may list
// them.
func (v *visit) names() (map[string]string, error) {
	names := map[string]string{v.me.ID: v.me.Name}
	if !v.may("tokens") {
		return names, nil
	}
	list, err := v.api.Tokens(v.r.Context())
	for _, t := range list {
		names[t.ID] = t.Name
	}
	return names, err
}
