package console

import "countersign/client"

// NewService returns the console of the service. It starts nothing.
func NewService(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "service", at: client.AtService, title: "countersign service",
		sections: []section{anySection, tasksSection, nowSection, merchantsSection, callbacksSection, withdrawalsSection,
			alarmsSection, auditSection, tokensSection, stopSection},
	})
}
