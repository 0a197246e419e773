package admin

import (
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/outbox"
)

func (s *Server) merchantHealth(c *api.Call, id string, _ api.None) (client.MerchantHealth, error) {
	m, err := s.merchant(c, id, api.None{})
	if err != nil {
		return client.MerchantHealth{}, err
	}
	if m.Health == nil {
		m.Health = &client.MerchantHealth{}
	}
	m.Health.OldestDue = m.OldestDue
	return *m.Health, nil
}

// addHealth gives each merchant of list its health.
func (s *Server) addHealth(c *api.Call, list []client.Merchant) error {
	ids := make([]string, len(list))
	for i, m := range list {
		ids[i] = m.ID
	}
	if len(ids) == 0 {
		return nil
	}
	all, err := s.Lists.Health(c.R.Context(), ids, c.Now)
	for i := range list {
		if h, ok := all[list[i].ID]; ok {
			list[i].Health = healthOf(h)
		}
	}
	return err
}

func healthOf(h outbox.Health) *client.MerchantHealth {
	out := &client.MerchantHealth{LastReached: api.TimeOf(h.Reached), LastAccepted: api.TimeOf(h.Accepted), FailingSince: api.TimeOf(h.Failing), Failing: h.Told}
	for _, e := range h.Hour {
		out.Attempts += e.N
		if e.Failed {
			out.Failed += e.N
			out.Reasons = append(out.Reasons, client.ReasonCount{Reason: e.Reason, Count: e.N})
		}
	}
	if h.Failed != 0 {
		out.LastFailure = &client.FailedAttempt{Callback: h.Callback, At: api.TimeOf(h.Failed), Reason: h.Reason, Text: h.Reason.Text()}
		if h.Facts != (client.Fact{}) {
			out.LastFailure.Facts = &h.Facts
		}
	}
	return out
}
