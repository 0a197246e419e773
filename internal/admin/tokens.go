package admin

import (
	"countersign/client"
	"countersign/internal/jsonapi"
)

func (s *Server) createToken(c *jsonapi.Call, _ jsonapi.None, in client.NewToken) (client.CreatedToken, error) {
	secret, hash := jsonapi.MintToken()
	t := jsonapi.NewStoreToken(in.Name, client.Role(in.Role), c.Now)
	if err := s.Tokens.Create(c.R.Context(), t, hash); err != nil {
		return client.CreatedToken{}, err
	}
	return client.CreatedToken{Token: tokenOf(t), Secret: secret}, nil
}

func (s *Server) listTokens(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Tokens, error) {
	out := client.Tokens{Tokens: []client.Token{}}
	list, err := s.Tokens.List(c.R.Context())
	for _, t := range list {
		out.Tokens = append(out.Tokens, tokenOf(t))
	}
	return out, err
}

func (s *Server) self(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Self, error) {
	return client.Self{Token: tokenOf(c.Token), May: s.api.May(c.Token)}, nil
}

// revokeToken refuses to revoke the last operator token.
func (s *Server) revokeToken(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (jsonapi.None, error) {
	id, err := c.PathID()
	if err != nil {
		return jsonapi.None{}, err
	}
	return jsonapi.None{}, s.api.Revoke(c, id)
}

func tokenOf(t jsonapi.Token) client.Token {
	return client.Token{ID: t.ID, Name: t.Name, Role: client.Role(t.Role), Created: jsonapi.TimeOf(t.Created), Revoked: jsonapi.TimeOf(t.Revoked)}
}
