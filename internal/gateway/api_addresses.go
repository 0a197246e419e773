package gateway

import (
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

func addressOf(a book.Address) client.AddressEntry {
	return client.AddressEntry{Seq: a.Seq, TenantUserID: a.TenantUserID, Address: a.Address, OldAddress: a.OldAddress, ChainName: a.ChainName,
		Symbol: a.Symbol, State: a.State, Taken: api.TimeOf(a.Taken), Decided: api.TimeOf(a.Decided), DecidedBy: a.DecidedBy, Reason: a.Reason}
}

type addressQuery struct {
	State        client.AddressState `query:"state" doc:"only in this state"`
	TenantUserID string              `query:"tenantUserId" doc:"only of this user, at most 1,024 bytes"`
	api.SeqPage
}

func (a *server) addresses(c *api.Call, q addressQuery, _ api.None) (client.AddressPage, error) {
	out := client.AddressPage{Addresses: []client.AddressEntry{}}
	list, next, err := a.lists.Addresses(c.R.Context(), book.AddressFilter{State: q.State, TenantUserID: q.TenantUserID}, q.Limit, q.Cursor)
	for _, x := range list {
		out.Addresses = append(out.Addresses, addressOf(x))
	}
	out.Next = api.NextSeq(next)
	return out, err
}
