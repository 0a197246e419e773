package admin

import (
	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// addAddress queues the callback about a user's new deposit address.
func (s *Server) addAddress(c *api.Call, _ api.None, in client.NewAddress) (client.AcceptedAddress, error) {
	c.Concerns(in.Merchant)
	callback, err := addressCallback(&in, c.Now)
	if err != nil {
		return client.AcceptedAddress{}, api.Invalid(memberFault("body", err))
	}
	if !c.Sees(in.Merchant) {
		return client.AcceptedAddress{}, api.Invalid(api.At("body.merchant", notKnown))
	}
	kept, err := s.Outbox.Ingest(c.R.Context(), []outbox.NewCallback{callback}, c.Now)
	if err != nil {
		return client.AcceptedAddress{}, itemProblem(c, err, func(int) string { return "body" })
	}
	k := kept[0]
	c.Trace("", callback.TrackingID)
	return client.AcceptedAddress{
		ID: k.ID, ChangeID: in.ChangeID, TrackingID: callback.TrackingID, State: k.State, Duplicate: k.Duplicate,
	}, nil
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
		return outbox.NewCallback{}, err
	}
	return outbox.NewCallback{
		Merchant: in.Merchant, Type: countersign.TypeAddress, EventID: in.ChangeID, TrackingID: trackingID,
		TenantUserID: in.TenantUserID, Address: in.NewAddress,
		Payload: payload, Due: now, Deadline: db.Never,
	}, nil
}
