package admin

import (
	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// addAddress tells merchants of users' new deposit addresses, all or nothing.
func (s *Server) addAddress(c *api.Call, _ api.None,
	in batch[client.NewAddress]) (client.List[client.Accepted], error) {
	return s.tell(c, len(in), func(i int) (outbox.NewCallback, error) {
		return addressCallback(&in[i], c.Now)
	})
}

// addressCallback returns the callback of type 4. Its trackingId is the changeId if the request has none: without a
// trackingId the merchant could not distinguish a repetition from another change (PROTOCOL.md, Deposit identity).
func addressCallback(in *client.NewAddress, now db.Millis) (outbox.NewCallback, error) {
	trackingID := in.ChangeID
	if in.TrackingID != nil {
		trackingID = *in.TrackingID
	}
	payload, err := (&countersign.AddressChange{
		Head: countersign.Head{RequestUUID: countersign.UnboundUUID, TrackingID: trackingID,
			TenantUserID: in.TenantUserID, Business: in.Business},
		ChainName: in.ChainName, Symbol: in.Symbol, ToAddress: in.ToAddress, NewAddress: in.NewAddress,
	}).Marshal()
	if err != nil {
		return outbox.NewCallback{Merchant: in.Merchant}, err
	}
	return outbox.NewCallback{
		Merchant: in.Merchant, Type: countersign.TypeAddress, EventID: in.ChangeID, TrackingID: trackingID,
		TenantUserID: in.TenantUserID, Address: in.NewAddress,
		Payload: payload, Due: now, Deadline: db.Never,
	}, nil
}
