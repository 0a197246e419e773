package gateway

import (
	"countersign/client"
	"countersign/internal/api"
)

func (a *server) revoke(c *api.Call, id string) error { return a.base.Revoke(c, id) }

func (a *server) self(c *api.Call, q api.None, in api.None) (client.Self, error) {
	return a.base.Self(c, q, in)
}

func (a *server) listTokens(c *api.Call, q api.None, in api.None) (client.Tokens, error) {
	return a.base.ListTokens(c, q, in)
}
