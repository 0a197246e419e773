package console

import "countersign/client"

// NewGateway returns the console of the gateway. It starts nothing.
func NewGateway(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "gateway", at: client.AtGateway, title: "countersign gateway",
		sections: []section{anySection, tasksSection, ordersSection, depositsSection, addressesSection, refusedSection,
			policySection, forwardingSection, alarmsSection, auditSection, tokensSection},
	})
}
