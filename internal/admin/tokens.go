package admin

import (
	"countersign/client"
	"countersign/internal/jsonapi"
)

// knownMerchant says whether a token can be bound to a merchant.
func (s *Server) knownMerchant(c *jsonapi.Call, id string) error {
	_, err := s.Outbox.Merchant(c.R.Context(), id)
	return err
}

func (s *Server) revoke(c *jsonapi.Call, id string) error { return s.api.Revoke(c, id) }

func (s *Server) self(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Self, error) {
	return s.api.Self(c, q, in)
}

func (s *Server) listTokens(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Tokens, error) {
	return s.api.ListTokens(c, q, in)
}
