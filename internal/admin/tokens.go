package admin

import (
	"countersign/client"
	"countersign/internal/api"
)

// knownMerchant says whether a token can be bound to a merchant.
func (s *Server) knownMerchant(c *api.Call, id string) error {
	_, err := s.Outbox.Merchant(c.R.Context(), id)
	return err
}

func (s *Server) revoke(c *api.Call, id string) error { return s.api.Revoke(c, id) }

func (s *Server) self(c *api.Call, q api.None, in api.None) (client.Self, error) {
	return s.api.Self(c, q, in)
}

func (s *Server) listTokens(c *api.Call, q api.None, in api.None) (client.Tokens, error) {
	return s.api.ListTokens(c, q, in)
}
