package gateway

import (
	"countersign/client"
	"countersign/internal/jsonapi"
)

func (a *api) createToken(c *jsonapi.Call, _ jsonapi.None, in client.NewToken) (client.CreatedToken, error) {
	t, err := c.NewToken(in, nil)
	if err != nil {
		return client.CreatedToken{}, err
	}
	secret, hash := jsonapi.MintToken()
	if err := a.tokens.Create(c.R.Context(), t, hash); err != nil {
		return client.CreatedToken{}, err
	}
	return client.CreatedToken{Token: jsonapi.ShownToken(t), Secret: secret}, nil
}

// revokeToken refuses to revoke the last admin's token.
func (a *api) revokeToken(c *jsonapi.Call, _ jsonapi.None, _ jsonapi.Unread) (jsonapi.None, error) {
	return jsonapi.None{}, a.base.Revoke(c, c.R.PathValue("id"))
}

func (a *api) self(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Self, error) {
	return a.base.Self(c, q, in)
}

func (a *api) listTokens(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Tokens, error) {
	return a.base.ListTokens(c, q, in)
}
