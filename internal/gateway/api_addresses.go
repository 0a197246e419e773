package gateway

import (
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

type addressQuery struct {
	State        client.AddressState `query:"state" doc:"only in this state"`
	TenantUserID string              `query:"tenantUserId" doc:"only of this user, at most 1,024 bytes"`
	api.SeqPage
}

func (a *server) addresses(c *api.Call, q addressQuery, _ api.None) (client.AddressPage, error) {
	list, next, err := a.lists.Addresses(c.R.Context(), book.AddressFilter{State: q.State, TenantUserID: q.TenantUserID}, q.Limit, q.Cursor)
	return client.AddressPage{Addresses: api.OrEmpty(list), Next: api.NextSeq(next)}, err
}
