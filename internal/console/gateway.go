package console

import (
	"countersign/client"
)

// NewGateway makes the console of the gateway. It starts nothing.
func NewGateway(c Config) (*Console, error) {
	return newConsole(c, end{
		name: "gateway", title: "countersign gateway",
		nav: []navItem{
			{root, "Awaiting", "orderRuling"},
			{"/console/orders", "Orders", "orders"},
			{"/console/deposits", "Deposits", "deposits"},
			{"/console/addresses", "Addresses", "addresses"},
			{"/console/refused", "Refused", "refused"},
			{"/console/policy", "Policy", "policy"},
			{"/console/forwarding", "Forwarding", "forwarding"},
			{"/console/changes", "Changes", "changes"},
			{"/console/alarms", "Alarms", "alarms"},
			{"/console/audit", "Audit", "audit"},
			{"/console/tokens", "Tokens", "tokens"},
		},
		pages: []page{
			{"GET /console/{$}", (*visit).awaiting},
			{"GET /console/live/awaiting", (*visit).awaitingLive},

			{"GET /console/orders", (*visit).orders},
			{"GET /console/orders/{id}", (*visit).order},
			{"POST /console/orders/{id}/approve", (*visit).orderApprove},
			{"POST /console/orders/{id}/decline", (*visit).orderDecline},
			{"POST /console/orders/{id}/cancel", (*visit).orderCancel},
			{"POST /console/orders/{id}/resume", (*visit).orderResume},
			{"POST /console/orders/{id}/notes", (*visit).orderNote},

			{"GET /console/deposits", (*visit).deposits},
			{"GET /console/deposits/credit", (*visit).depositsAll},
			{"POST /console/deposits/credit", (*visit).depositsAllDone},
			{"GET /console/deposits/reject", (*visit).depositsAll},
			{"POST /console/deposits/reject", (*visit).depositsAllDone},
			{"GET /console/deposits/{seq}", (*visit).deposit},
			{"POST /console/deposits/{seq}/credit", (*visit).depositCredit},
			{"POST /console/deposits/{seq}/reject", (*visit).depositReject},
			{"POST /console/deposits/{seq}/notes", (*visit).depositNote},

			{"GET /console/addresses", (*visit).addresses},
			{"GET /console/addresses/{seq}", (*visit).address},
			{"POST /console/addresses/{seq}/accept", (*visit).addressAccept},
			{"POST /console/addresses/{seq}/reject", (*visit).addressReject},

			{"GET /console/refused", (*visit).refusals},
			{"GET /console/refused/retry", (*visit).refusedAll},
			{"POST /console/refused/retry", (*visit).refusedAllDone},
			{"GET /console/refused/dismiss", (*visit).refusedAll},
			{"POST /console/refused/dismiss", (*visit).refusedAllDone},
			{"GET /console/refused/{id}", (*visit).refusal},
			{"POST /console/refused/{id}/retry", (*visit).refusalRetry},
			{"POST /console/refused/{id}/dismiss", (*visit).refusalDismiss},

			{"GET /console/policy", (*visit).policy},

			{"GET /console/forwarding", (*visit).forwarding},
			{"POST /console/forwarding/retry", (*visit).forwardRetryAll},
			{"POST /console/forwarding/{id}/retry", (*visit).forwardRetry},
			{"POST /console/forwarding/{id}/skip", (*visit).forwardSkip},
		},
		connect: func(v *visit, c client.Config) (err error) { v.gateway, err = client.NewGateway(c); return err },
		top:     (*visit).gatewayTop,
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
