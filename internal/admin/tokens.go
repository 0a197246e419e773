package admin

import (
	"net/http"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/jsonapi"
)

func (s *Server) createToken(c *jsonapi.Call, _ jsonapi.None, in client.NewToken) (client.CreatedToken, error) {
	t, err := c.NewToken(in, func(id string) error {
		_, err := s.Outbox.Merchant(c.R.Context(), id)
		return err
	})
	if err != nil {
		return client.CreatedToken{}, err
	}
	secret, hash := jsonapi.MintToken()
	if err := s.Tokens.Create(c.R.Context(), t, hash); err != nil {
		return client.CreatedToken{}, err
	}
	return client.CreatedToken{Token: jsonapi.ShownToken(t), Secret: secret}, nil
}

// revokeToken refuses to revoke the last admin's token.
func (s *Server) revokeToken(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (jsonapi.None, error) {
	id, err := c.PathID()
	if err != nil {
		return jsonapi.None{}, err
	}
	t, err := s.Tokens.ByID(c.R.Context(), id)
	switch {
	case err != nil:
		return jsonapi.None{}, err
	case !c.Covers(t):
		return jsonapi.None{}, db.ErrNotFound
	case c.Token.Role != client.RoleAdmin && (t.Role == client.RoleAdmin || t.Role == client.RoleApprover):
		return jsonapi.None{}, jsonapi.NewProblem(http.StatusForbidden, "only an admin's token revokes that of an admin or an approver")
	}
	return jsonapi.None{}, s.api.Revoke(c, id)
}

func (s *Server) self(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Self, error) {
	return s.api.Self(c, q, in)
}

func (s *Server) listTokens(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Tokens, error) {
	return s.api.ListTokens(c, q, in)
}
