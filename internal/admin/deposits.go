package admin

import (
	"crypto/rand"
	"errors"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// addDeposits tells merchants of deposits, all or nothing.
func (s *Server) addDeposits(c *api.Call, _ api.None,
	in batch[client.NewDeposit]) (client.List[client.Accepted], error) {
	return s.tell(c, len(in), func(i int) (outbox.NewCallback, error) {
		return callbackOf(&in[i], c.Now)
	})
}

// tell keeps the callbacks about the n items of a request, all or nothing. callback returns that of one item, of which
// an error leaves only the merchant.
func (s *Server) tell(c *api.Call, n int,
	callback func(int) (outbox.NewCallback, error)) (client.List[client.Accepted], error) {
	list := make([]outbox.NewCallback, n)
	var faults api.Faults
	for i := range list {
		var err error
		if list[i], err = callback(i); err != nil {
			faults = append(faults, memberFault(place(i), err))
		}
		c.Concerns(list[i].Merchant)
		if !c.Sees(list[i].Merchant) {
			faults.Add(place(i)+".merchant", notKnown)
		}
		if len(faults) >= api.MaxFaults {
			break
		}
	}
	if err := faults.Err(); err != nil {
		return client.List[client.Accepted]{}, err
	}
	kept, err := s.ingest(c.R.Context(), list, outbox.Quota{Token: c.Token.ID, Hourly: c.Token.Hourly}, c.Now)
	if err != nil {
		return client.List[client.Accepted]{}, itemProblem(c, err)
	}
	c.Items = len(kept)
	for _, k := range kept {
		c.Trace("", k.TrackingID)
	}
	return client.List[client.Accepted]{Items: kept}, nil
}

// testsAnHour is how many test deposits one token sends in an hour.
const testsAnHour = 60

// testDeposit sends a merchant a deposit that it cannot take for money, even if it books it: its amount is 0, and its
// user, chain, symbol and address exist nowhere. The caller sets none of its content.
func (s *Server) testDeposit(c *api.Call, merchant string, _ api.None) (client.Accepted, error) {
	amount, err := countersign.ParseAmount("0")
	if err != nil {
		return client.Accepted{}, err
	}
	id := "test-" + strings.ToLower(rand.Text())
	cb, err := callbackOf(&client.NewDeposit{
		Merchant: merchant, TrackingID: id, TxID: id, TenantUserID: "test", ToAddress: "test",
		ChainName: client.TestSymbol, Symbol: client.TestSymbol, Amount: amount, TxIndex: -1,
	}, c.Now)
	if err != nil {
		return client.Accepted{}, err
	}
	c.Trace("", id)
	kept, err := s.ingest(c.R.Context(), []outbox.NewCallback{cb},
		outbox.Quota{Token: c.Token.ID, Hourly: testsAnHour}, c.Now)
	var item *db.ItemError
	switch {
	case errors.As(err, &item):
		return client.Accepted{}, item.Err
	case err != nil:
		return client.Accepted{}, err
	}
	return kept[0], nil
}

// callbackOf returns the callback that tells the merchant of d. The payload is canonical and not bound yet: each
// attempt binds it to its own requestUUID.
func callbackOf(d *client.NewDeposit, now db.Millis) (outbox.NewCallback, error) {
	newAddress := d.ToAddress
	if d.NewAddress != nil {
		newAddress = *d.NewAddress
	}
	payload, err := (&countersign.Deposit{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: d.TrackingID, TenantUserID: d.TenantUserID,
			Business: d.Business},
		TxID: d.TxID, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount,
		FromAddress: d.FromAddress, ToAddress: d.ToAddress,
		RiskLevelFrom: d.RiskLevelFrom, RiskLevelTo: d.RiskLevelTo, TxIndex: d.TxIndex,
		NewAddress: newAddress,
	}).Marshal()
	if err != nil {
		return outbox.NewCallback{Merchant: d.Merchant}, err
	}
	return outbox.NewCallback{
		Merchant: d.Merchant, Type: countersign.TypeDeposited, EventID: d.TrackingID,
		TrackingID: d.TrackingID, TxID: d.TxID, TenantUserID: d.TenantUserID, Address: d.ToAddress, Payload: payload,
		Due: now, Deadline: db.Never,
	}, nil
}

func (s *Server) sentDeposits(c *api.Call, f client.DepositFilter, limit int,
	cursor string) ([]client.SentDeposit, string, error) {
	return s.Lists.SentDeposits(c.R.Context(), seen(c, f.Merchant), cursor, limit)
}
