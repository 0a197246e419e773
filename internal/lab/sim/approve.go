package sim

import (
	"errors"
	"fmt"

	"countersign"
	"countersign/client"
	"countersign/internal/policy"
)

// persons are those of whom two must approve a large order at the gateway.
var persons = []string{"ann", "bob"}

// large returns the amount above which an order needs them. One order in six is above it.
func (w *world) large() int { return w.c.Withdrawals * 5 / 6 }

// isLarge reports whether an order needs persons.
func (w *world) isLarge(a countersign.Amount) bool {
	limit, err := countersign.ParseAmount(fmt.Sprint(w.large()))
	return err == nil && a.Cmp(limit) > 0
}

// rules are the policy of the gateway. All tokens come from that of the application, which orders.
func (w *world) rules() (*policy.Rules, error) {
	return policy.Parse(fmt.Appendf(nil, `
default = "allow"
self-approval = true
[[rule]]
name = "large"
amount-above = "%d"
effect = "ask"
approvals = %d
`, w.large(), len(persons)))
}

// employ gives each person a token. Persons look now and then at what is held, and approve it.
func (s *shop) employ() error {
	for _, who := range persons {
		t, err := s.api.CreateToken(s.w.ctx, client.NewToken{Name: who, Role: client.RoleAdmin})
		if err != nil {
			return err
		}
		api, err := client.NewGateway(client.Config{URL: "http://" + gatewayAddr, Token: t.Secret, HTTPClient: s.http})
		if err != nil {
			return err
		}
		s.all.Go(func() { s.approve(who, api) })
	}
	return nil
}

func (s *shop) approve(who string, api *client.Gateway) {
	for {
		select {
		case <-s.stop:
			return
		case <-s.w.look(who, 5):
		}
		page, err := api.Orders(s.w.ctx, client.OrderFilter{State: client.OrderHeld}, client.PageOptions{})
		if err != nil {
			continue
		}
		for _, o := range page.Items {
			s.mu.Lock()
			if s.approved[o.CallBackID] == nil {
				s.approved[o.CallBackID] = map[string]bool{}
			}
			s.approved[o.CallBackID][who] = true // also where the answer is lost
			s.mu.Unlock()
			if _, err := api.ApproveTask(s.w.ctx, client.TaskID(client.TaskOrder, o.CallBackID), ""); errors.Is(err, client.ErrForbidden) {
				s.w.wrong("%s may not approve order %s: %v", who, o.CallBackID, err)
			}
		}
	}
}

// checkApproved: no large order was executed that not all of them approved.
func (s *shop) checkApproved(id string, amount countersign.Amount) {
	if n := len(s.approved[id]); s.w.isLarge(amount) && n < len(persons) {
		s.w.wrong("withdrawal %s was executed, and %d of %d persons approved it", id, n, len(persons))
	}
}
