package admin

import (
	"crypto/sha256"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/jsonapi"
)

// MintToken makes a token: secret is for its owner, hash is what is
// kept.
func MintToken() (secret client.Secret, hash [sha256.Size]byte) { return jsonapi.MintToken() }

// IsToken says whether secret has the form of a token.
func IsToken(secret string) bool { return jsonapi.IsToken(secret) }

// HashToken is the form in which tokens are kept.
func HashToken(secret string) [sha256.Size]byte { return jsonapi.HashToken(secret) }

// NewStoreToken gives a token with an id of its own, to be kept beside the hash
// of a secret from MintToken.
func NewStoreToken(name string, role client.Role, now db.Millis) jsonapi.Token {
	return jsonapi.NewStoreToken(name, role, now)
}

func (s *Server) createToken(c *jsonapi.Call, _ jsonapi.None, in client.NewToken) (client.CreatedToken, error) {
	secret, hash := MintToken()
	t := NewStoreToken(in.Name, client.Role(in.Role), c.Now)
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

// revokeToken refuses to take the last operator's token away.
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
