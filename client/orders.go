package client

import (
	"context"

	"countersign"
)

// OrderState is the state of an order.
type OrderState string

// The states of an order: open → held → approved → confirmed → executed | ended; open, held or approved → declined |
// cancelled | expired; approved → held if the policy wants more approvals when the service asks.
const (
	OrderOpen      OrderState = "open"
	OrderHeld      OrderState = "held"
	OrderApproved  OrderState = "approved"
	OrderConfirmed OrderState = "confirmed"
	OrderExecuted  OrderState = "executed"
	OrderEnded     OrderState = "ended"
	OrderDeclined  OrderState = "declined"
	OrderCancelled OrderState = "cancelled"
	OrderExpired   OrderState = "expired"
	OrderUnknown   OrderState = "unknown"
)

var _ = newWords(words[OrderState]{
	{is: OrderOpen, means: "The service has not asked for it."},
	{is: OrderHeld, means: "It awaits a person's decision, or that of several."},
	{is: OrderApproved, means: "As many persons as the policy wants approved it."},
	{is: OrderConfirmed, means: "It was confirmed to the service. That cannot be undone."},
	{is: OrderExecuted, means: "The service says that it executed it (type 3)."},
	{is: OrderEnded, means: "The service ended it without executing it (type 5): its funds may be unfrozen."},
	{is: OrderDeclined, means: "A person or the policy declined it."},
	{is: OrderCancelled, means: "It was taken back."},
	{is: OrderExpired, means: "It was not confirmed before expiresAt."},
	{is: OrderUnknown, means: "The service asked for it, and nobody had ordered it."},
})

// Undecided reports whether an order in this state can still be confirmed.
func (s OrderState) Undecided() bool {
	return s == OrderOpen || s == OrderHeld || s == OrderApproved
}

// NewOrder is a withdrawal that the merchant orders before the service asks for it.
type NewOrder struct {
	CallBackID   string             `json:"callBackId" minLength:"1" maxLength:"200" doc:"identifies the order permanently, 1 to 200 characters: the service asks for it by this id; a request with the same callBackId repeats the order"`
	TenantUserID string             `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user whose withdrawal it is, 1 to 200 characters"`
	Address      string             `json:"address" minLength:"1" maxLength:"200" doc:"target, 1 to 200 characters"`
	ChainName    string             `json:"chainName" minLength:"1" maxLength:"64" doc:"the chain, 1 to 64 characters"`
	Symbol       string             `json:"symbol" minLength:"1" maxLength:"64" doc:"the currency, 1 to 64 characters"`
	Amount       countersign.Amount `json:"amount,omitzero" required:"true" doc:"in units of the currency: an exact decimal above 0 of at most 78 digits"`
	ExpiresAt    Time               `json:"expiresAt,omitzero" doc:"it is not confirmed at this time or later; absent: it does not expire"`
	Labels       map[string]string  `json:"labels,omitempty" doc:"texts for the policy's conditions: at most 32, names of 1 to 64 bytes, values of at most 200 bytes"`
}

// Order is an order with its state. In state unknown (the service asked for it, the
// merchant did not order it) it has no details.
type Order struct {
	CallBackID   string             `json:"callBackId" doc:"identifies the order permanently"`
	TenantUserID string             `json:"tenantUserId" doc:"the user whose withdrawal it is"`
	Address      string             `json:"address,omitempty" doc:"target"`
	ChainName    string             `json:"chainName,omitempty" doc:"the chain"`
	Symbol       string             `json:"symbol,omitempty" doc:"the currency"`
	Amount       countersign.Amount `json:"amount,omitzero" doc:"in units of the currency: an exact decimal, as ordered"`
	ExpiresAt    Time               `json:"expiresAt,omitzero" doc:"it is not confirmed at this time or later; absent: it does not expire"`
	Labels       map[string]string  `json:"labels,omitempty" doc:"texts for the policy's conditions"`

	State     OrderState `json:"state" doc:"its state"`
	OrderedBy string     `json:"orderedBy,omitempty" doc:"id of the token that ordered it; absent: the service asked first"`
	Reason    string     `json:"reason,omitempty" doc:"the reason of the last decision on it, or what was wrong when it was executed"`
	DecidedBy string     `json:"decidedBy,omitempty" doc:"id of the token that approved, declined or cancelled it; policy or countersign if no person did"`
	Waiting   WaitingFor `json:"waiting,omitempty" doc:"what the service said it waits for, before it tries again"`
	TxID      string     `json:"txId,omitempty" doc:"transaction that moved the funds, if executed"`
	Created   Time       `json:"created" doc:"when it was ordered or first asked for"`
	Updated   Time       `json:"updated" doc:"when it last changed"`
	Confirmed Time       `json:"confirmed,omitzero" doc:"when it was confirmed to the service"`
	Ended     Time       `json:"ended,omitzero" doc:"when it reached a final state"`
	Restored  bool       `json:"restored,omitempty" doc:"it is from before a restore, and nobody has said what became of it: the service is told to ask later, and it neither ends nor is approved"`
}

// Paying returns o with the details d.
func (o NewOrder) Paying(d countersign.Details) NewOrder {
	o.Address, o.ChainName, o.Symbol, o.Amount = d.Address, d.ChainName, d.Symbol, d.Amount
	return o
}

// Details returns what o pays, and where.
func (o NewOrder) Details() countersign.Details {
	return countersign.Details{Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
}

// Details returns what o pays, and where. It is zero if the merchant did not order o.
func (o Order) Details() countersign.Details {
	return countersign.Details{Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount}
}

// Expired reports whether o can no longer be confirmed at that time, because it has expired.
func (o Order) Expired(at Time) bool { return o.ExpiresAt != 0 && o.ExpiresAt <= at }

// AddedOrder answers a new order.
type AddedOrder struct {
	Order
	Duplicate bool `json:"duplicate" doc:"it exists already, with the same content"`
}

// Decide is the reason for a person's decision.
type Decide struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"the reason, kept for later readers, at most 500 characters"`
}

// OrderFilter selects orders. Empty members select all.
type OrderFilter struct {
	State        OrderState `query:"state" doc:"only in this state"`
	TenantUserID string     `query:"tenantUserId" doc:"only of this user, at most 1,024 bytes"`
	Address      string     `query:"address" doc:"only to this address, at most 1,024 bytes"`
	TxID         string     `query:"txId" doc:"only the one that this transaction executed"`
	Since        Time       `query:"since" doc:"only ordered or first asked for at this time or later, in RFC 3339"`
	Until        Time       `query:"until" doc:"only ordered or first asked for before this time, in RFC 3339"`
}

// AddOrder orders a withdrawal. The same callBackId with the same content is a
// duplicate; with other content the error is ErrConflict.
func (g *Gateway) AddOrder(ctx context.Context, o NewOrder) (AddedOrder, error) {
	return Post[AddedOrder](ctx, g, "/v1/orders", o)
}

// Orders returns a page of orders, the newest first.
func (g *Gateway) Orders(ctx context.Context, f OrderFilter, o PageOptions) (List[Order], error) {
	return Get[List[Order]](ctx, g, "/v1/orders", f, o)
}

// Order returns one order.
func (g *Gateway) Order(ctx context.Context, callBackID string) (Order, error) {
	return Get[Order](ctx, g, Path("orders", callBackID))
}

// CancelOrder cancels an order that is not confirmed yet. The reason may be empty.
func (g *Gateway) CancelOrder(ctx context.Context, callBackID, reason string) (Order, error) {
	return Post[Order](ctx, g, Path("orders", callBackID, "cancel"), Decide{reason})
}
