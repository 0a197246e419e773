package admin

import (
	"countersign/client"
	"countersign/internal/api"
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
		list[i].Health = all[list[i].ID]
	}
	return err
}
