package gateway

import (
	"countersign/client"
	"countersign/internal/jsonapi"
)

func (a *api) createToken(c *jsonapi.Call, _ jsonapi.None, in client.NewToken) (client.CreatedToken, error) {
	secret, hash := jsonapi.MintToken()
	t := jsonapi.NewStoreToken(in.Name, client.Role(in.Role), c.Now)
	if err := a.tokens.Create(c.R.Context(), t, hash); err != nil {
		return client.CreatedToken{}, err
	}
	return client.CreatedToken{Token: tokenOf(t), Secret: secret}, nil
}

func (a *api) listTokens(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Tokens, error) {
	out := client.Tokens{Tokens: []client.Token{}}
	list, err := a.tokens.List(c.R.Context())
	for _, t := range list {
		out.Tokens = append(out.Tokens, tokenOf(t))
	}
	return out, err
}

func (a *api) self(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.None) (client.Self, error) {
	return client.Self{Token: tokenOf(c.Token), May: a.base.May(c.Token)}, nil
}

// revokeToken refuses to revoke the last operator token.
func (a *api) revokeToken(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.Unread) (jsonapi.None, error) {
	return jsonapi.None{}, a.base.Revoke(c, c.R.PathValue("id"))
}

func tokenOf(t jsonapi.Token) client.Token {
	return client.Token{ID: t.ID, Name: t.Name, Role: client.Role(t.Role), Created: timeOf(t.Created), Revoked: timeOf(t.Revoked)}
}
