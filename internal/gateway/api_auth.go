package gateway

import (
	"countersign/client"
	"countersign/internal/jsonapi"
)

func (a *api) revoke(c *jsonapi.Call, id string) error { return a.base.Revoke(c, id) }

func (a *api) self(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Self, error) {
	return a.base.Self(c, q, in)
}

func (a *api) listTokens(c *jsonapi.Call, q jsonapi.None, in jsonapi.None) (client.Tokens, error) {
	return a.base.ListTokens(c, q, in)
}
