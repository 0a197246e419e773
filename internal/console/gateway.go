package console

import (
	"countersign/client"
)

// NewGateway makes the console of the gateway. It starts nothing.
func NewGateway(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "gateway", title: "countersign gateway",
		sections: []section{anySection, awaitingSection, waitingSection, ordersSection, depositsSection, addressesSection, refusedSection, policySection, forwardingSection, changesSection, alarmsSection, auditSection, tokensSection},
		connect:  func(v *visit, c client.Config) (err error) { v.gateway, err = client.NewGateway(c); return err },
		top:      (*visit).gatewayTop,
	})
}

// gatewayTop is what every page of the gateway's console shows.
type gatewayTop struct {
	Alarms   string // how many are open; empty: none
	Changes  int    // that wait for an approver
	Awaiting int64  // orders, deposits and addresses that a person must decide on
}

func (v *visit) gatewayTop() (any, error) {
	var top gatewayTop
	if v.may("changes") {
		var err error
		if top.Changes, err = v.waitingChanges(); err != nil {
			return nil, err
		}
	}
	if v.may("alarms") {
		var err error
		if top.Alarms, err = v.openAlarms(); err != nil {
			return nil, err
		}
	}
	if v.may("stats") {
		stats, err := v.gateway.Stats(v.r.Context())
		if err != nil {
			return nil, err
		}
		top.Awaiting = stats.Orders[client.OrderHeld] + stats.DepositsHeld + stats.AddressesHeld
	}
	return top, nil
}

// names gives the names of tokens by their ids, as far as the session's token may list
// them.
func (v *visit) names() (map[string]string, error) {
	names := map[string]string{v.me.ID: v.me.Name}
	if !v.may("tokens") {
		return names, nil
	}
	list, err := v.listTokens()
	for _, t := range list {
		names[t.ID] = t.Name
	}
	return names, err
}
