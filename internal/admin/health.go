package admin

import (
	"countersign/client"
	"countersign/internal/api"
)

// addHealth adds to each merchant of list its health.
func (s *Server) addHealth(c *api.Call, list []client.Merchant) error {
	ids := make([]string, len(list))
	for i, m := range list {
		ids[i] = m.ID
	}
	if len(ids) == 0 {
		return nil
	}
	all, err := s.Lists.Health(c.R.Context(), ids)
	for i := range list {
		list[i].Health = all[list[i].ID]
	}
	return err
}
