package client

import (
	"context"

	"countersign"
)

// Gateway calls the API of a merchant's gateway. Make it with NewGateway. Its
// methods may be used from several goroutines at once.
type Gateway struct{ Common }

// NewGateway checks c. It makes no call.
func NewGateway(c Config) (*Gateway, error) {
	base, err := newCaller(c)
	if err != nil {
		return nil, err
	}
	return &Gateway{base}, nil
}

// InboxEntry is a callback in the merchant's inbox.
type InboxEntry struct {
	Seq               int64            `json:"seq" minimum:"1" doc:"number in the inbox"`
	Type              countersign.Type `json:"type" doc:"type of the callback (PROTOCOL.md, Messages)"`
	ID                string           `json:"id" doc:"id of the callback within its type: the trackingId; for type 2 the callBackId"`
	TenantUserID      string           `json:"tenantUserId" doc:"the user in the merchant's system"`
	CallBackID        string           `json:"callBackId,omitempty" doc:"of the order that it is about"`
	PossibleDuplicate bool             `json:"possibleDuplicate" doc:"an earlier deposit under another trackingId names the same transfer"`
	Suspect           bool             `json:"suspect,omitempty" doc:"its sealed blocks belong to another request: it may be joined from several"`
	Settled           bool             `json:"settled" doc:"its answer is final"`
	ErrCode           *int64           `json:"errCode,omitempty" doc:"errCode that the service gets, once settled"`
	Message           string           `json:"message,omitempty" doc:"text that the service gets, once settled"`
	Created           Time             `json:"created" doc:"when it first arrived"`
	Ended             Time             `json:"ended,omitzero" doc:"when it was settled"`
}

// InboxFilter selects entries of the inbox. Zero members select all.
type InboxFilter struct {
	Type       countersign.Type `query:"type" doc:"only of this type"`
	ID         string           `query:"id" doc:"only with this trackingId (callBackId for type 2), at most 1,024 bytes"`
	CallBackID string           `query:"callBackId" doc:"only about this order: its callBackId, at most 1,024 bytes"`
	Settled    string           `query:"settled" enum:"false" doc:"false: only those without a final answer"`
}

// Callbacks returns a page of the inbox, the newest first.
func (g *Gateway) Callbacks(ctx context.Context, f InboxFilter, o PageOptions) (List[InboxEntry], error) {
	return Get[List[InboxEntry]](ctx, g, "/v1/callbacks", f, o)
}

// GatewayStats count what the gateway holds.
type GatewayStats struct {
	Callbacks     int64                `json:"callbacks" doc:"callbacks ever taken"`
	CallbacksOpen int64                `json:"callbacksOpen" doc:"of those, how many have no final answer"`
	Deposits      int64                `json:"deposits" doc:"deposits ever taken"`
	DepositsHeld  int64                `json:"depositsHeld" doc:"of those, how many await a person's decision"`
	AddressesHeld int64                `json:"addressesHeld" doc:"changed deposit addresses that await a person's decision"`
	Events        int64                `json:"events" doc:"entries of the feed of events"`
	Orders        map[OrderState]int64 `json:"orders" doc:"how many orders are in each state; absent: none"`
	Forwards      int64                `json:"forwards" doc:"entries of the feeds that are still to be forwarded to the application"`
	ForwardOldest Time                 `json:"forwardOldest,omitzero" doc:"when the oldest of them was queued; absent: there is none"`
}

// Stats counts what the gateway holds.
func (g *Gateway) Stats(ctx context.Context) (GatewayStats, error) {
	return Get[GatewayStats](ctx, g, "/v1/stats")
}
