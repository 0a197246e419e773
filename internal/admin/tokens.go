package admin

import (
	"fmt"
	"net/http"

	"countersign/internal/store"
)

func (s *Server) createToken(c *call, _ none, in NewToken) (CreatedToken, error) {
	secret, hash := MintToken()
	t := NewStoreToken(in.Name, store.Role(in.Role), c.now)
	if err := s.Store.CreateToken(c.r.Context(), t, hash); err != nil {
		return CreatedToken{}, err
	}
	return CreatedToken{tokenOf(t), secret}, nil
}

// NewStoreToken gives a token with an id of its own, to be kept beside the hash
// of a secret from MintToken.
func NewStoreToken(name string, role store.Role, now store.Millis) store.Token {
	return store.Token{ID: "tok_" + randomText(9), Name: name, Role: role, Created: now}
}

func (s *Server) listTokens(c *call, _ none, _ none) (Tokens, error) {
	out := Tokens{Tokens: []Token{}}
	list, err := s.Store.Tokens(c.r.Context())
	for _, t := range list {
		out.Tokens = append(out.Tokens, tokenOf(t))
	}
	return out, err
}

// revokeToken refuses to take the last operator's token away: nobody could
// make another.
func (s *Server) revokeToken(c *call, _ none, _ none) (none, error) {
	id, err := c.pathID()
	if err != nil {
		return none{}, err
	}
	list, err := s.Store.Tokens(c.r.Context())
	if err != nil {
		return none{}, err
	}
	known, others := false, 0
	for _, t := range list {
		switch {
		case t.ID == id:
			known = true
			if t.Role != store.RoleOperator || t.Revoked != 0 {
				others++
			}
		case t.Role == store.RoleOperator && t.Revoked == 0:
			others++
		}
	}
	if !known {
		return none{}, fmt.Errorf("token: %w", store.ErrNotFound)
	}
	if others == 0 {
		return none{}, problem(http.StatusConflict, "this is the last operator token; make another first")
	}
	defer s.tokens.forget()
	return none{}, s.Store.RevokeToken(c.r.Context(), id, c.now)
}

func tokenOf(t store.Token) Token {
	return Token{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: timeOf(t.Created), Revoked: timeOf(t.Revoked)}
}
