package store

import (
	"time"

	"countersign"
)

// InboxEntry is one callback on its way into the inbox of a merchant's end.
type InboxEntry struct {
	Callback countersign.Callback
	ID       string   // identifies it among the callbacks of its type
	Content  [32]byte // digest of what its effect rests on
	Transfer [32]byte // digest of what moved to where; zero: nothing did
	TxIndex  int64    // tells transfers of one transaction apart; below 0: tells nothing
	// First and Whole are the digests of the first sealed block and of all
	// blocks. First zero: the first-block rule does not apply.
	First, Whole [32]byte
	At           Millis
	// Lease is how long the caller works on it. 0: recording it, with what
	// follows from it, is all that is to be done.
	Lease time.Duration
}

// InboxState is what a claim found.
type InboxState int

// The states of a claim; the zero one is none.
const (
	InboxNone         InboxState = iota
	InboxTaken                   // recorded by this very call, with its effect
	InboxClaimed                 // leased to the caller
	InboxSettled                 // ended before; the kept outcome stands
	InboxBusy                    // another caller has the lease
	InboxOtherContent            // the identifier is known with other content
	InboxSpliced                 // the first block is known with another rest
)

// InboxResult is what became of a claim.
type InboxResult struct {
	State InboxState
	// Seq is the entry's number, above 0 and growing; 0 where it is spliced.
	Seq               int64
	Claim             int64 // names the lease
	PossibleDuplicate bool
	Outcome           InboxOutcome // where State is InboxSettled
}

// InboxOutcome is what the service was told.
type InboxOutcome struct {
	Code    countersign.ErrCode
	Message string
	Details countersign.Details // of a confirmed withdrawal
}

// InboxSettlement ends a claim.
type InboxSettlement struct {
	Type    countersign.Type
	ID      string
	Claim   int64
	Outcome InboxOutcome
	Final   bool // keep it for ever
	At      Millis
}

// InboxRecord is one entry of the inbox as it is listed.
type InboxRecord struct {
	Seq               int64
	Type              countersign.Type
	ID                string
	TenantUserID      string
	CallBackID        string // may be empty
	PossibleDuplicate bool
	Settled           bool
	Claims            int64
	Created, Ended    Millis
	Outcome           InboxOutcome // once Settled
}

// InboxFilter selects entries; zero members select all.
type InboxFilter struct {
	Type       countersign.Type
	ID         string
	CallBackID string
	Open       bool // only those that are not settled
}

// DepositState is where a taken deposit stands.
type DepositState string

// The states of a deposit: taken, or held → credited | rejected.
const (
	DepositTaken    DepositState = "taken"    // counts
	DepositHeld     DepositState = "held"     // may have been taken before; awaits a decision
	DepositCredited DepositState = "credited" // was held, counts
	DepositRejected DepositState = "rejected" // was held, does not count
)

// TakenDeposit is one entry of the feed of deposits: gap-free, in order of Seq.
type TakenDeposit struct {
	Seq       int64
	Deposit   countersign.Deposit // without requestUUID and unknown members
	State     DepositState
	Taken     Millis
	Decided   Millis // 0 before, and where nothing had to be decided
	DecidedBy string
	Reason    string
}

// PossibleDuplicate reports whether the same transfer had been taken before.
func (d TakenDeposit) PossibleDuplicate() bool { return d.State != DepositTaken }

// OrderState is where an order stands.
type OrderState string

// The states of an order: open → held → approved → confirmed → executed |
// ended; open, held or approved → declined | cancelled | expired. Unknown is
// one that the service asked for before the merchant ordered it, too long.
const (
	OrderOpen      OrderState = "open"
	OrderHeld      OrderState = "held"      // awaits a person
	OrderApproved  OrderState = "approved"  // by a person
	OrderConfirmed OrderState = "confirmed" // to the service; for ever
	OrderExecuted  OrderState = "executed"  // the service says so (type 3)
	OrderEnded     OrderState = "ended"     // without execution (type 5): its funds may be unfrozen
	OrderDeclined  OrderState = "declined"  // by a person or by the policy
	OrderCancelled OrderState = "cancelled"
	OrderExpired   OrderState = "expired"
	OrderUnknown   OrderState = "unknown" // refused to the service before it was ordered
)

// Undecided reports whether an order in this state can still be confirmed.
func (s OrderState) Undecided() bool {
	return s == OrderOpen || s == OrderHeld || s == OrderApproved
}

// NewOrder is a withdrawal that the merchant has ordered.
type NewOrder struct {
	CallBackID   string
	TenantUserID string
	Details      countersign.Details
	Labels       map[string]string // for the policy; may be nil
	Expires      Millis            // not confirmed from then on; Never for none
}

// Order is an order and what became of it.
type Order struct {
	NewOrder
	Seq       int64
	State     OrderState
	Reason    string           // of the last change of state; may be empty
	DecidedBy string           // who approved, declined or cancelled it, or "policy"
	Waiting   countersign.Type // 6 or 7: the service is short of funds and tries again; 0: no
	TxID      string           // where executed
	Created   Millis
	Updated   Millis
	Confirmed Millis // 0: never
	Ended     Millis // when it came to a state that is final; 0 before
}

// OrderFilter selects orders; zero members select all.
type OrderFilter struct {
	State        OrderState
	TenantUserID string
}

// Asked is what the store knows of an order that the service asks for.
type Asked struct {
	Known bool
	Order Order // where Known
	// Since is when the service first asked, and the time of the look-up where
	// that is not recorded.
	Since Millis
}

// OrderChange moves an order from one state to another, if it is still there.
type OrderChange struct {
	CallBackID   string
	TenantUserID string // of the order; checked where it is to be confirmed
	From, To     OrderState
	By           string
	Reason       string
	Alarm        string // kind of alarm to raise with it, or empty
	// Clock is read for a confirmation once the order is locked: the process may
	// have stood still since it decided, and the order expired meanwhile. Nil:
	// the time that the caller gives is the time.
	Clock func() Millis
	// Ceilings are what a confirmation must still fit under. They hold exactly,
	// on however many nodes orders are confirmed at once.
	Ceilings []Ceiling
}

// Ceiling bounds the sum of the amounts confirmed since Since with the order's
// symbol, the order itself included, of one tenant or of all where
// TenantUserID is empty. Since is the caller's time, and others confirmed at the
// time of their node: the window is exact up to how far these are apart.
type Ceiling struct {
	TenantUserID string
	Since        Millis
	Max          countersign.Amount // required: without one nothing fits
}

// Spent is the sum of all amounts of Symbol confirmed since Since, of one
// tenant or of all where TenantUserID is empty. Orders that ended without
// execution do not count.
type Spent struct {
	Symbol       string
	TenantUserID string
	Since        Millis
	Sum          countersign.Amount // zero Amount: nothing
}

// Event is one entry of the feed of events: gap-free, in order of Seq. Which
// members are set depends on the kind.
type Event struct {
	Seq          int64
	Kind         string // see the Event constants
	At           Millis
	CallBackID   string
	Deposit      int64 // seq in the feed of deposits; 0: none
	TenantUserID string
	State        string // of the order or deposit, from then on
	Details      countersign.Details
	OldAddress   string // of an address change; may be empty
	TxID         string
	Reason       string
	DecidedBy    string
}

// The kinds of events.
const (
	EventOrderHeld        = "order.held"
	EventOrderApproved    = "order.approved"
	EventOrderConfirmed   = "order.confirmed"
	EventOrderDeclined    = "order.declined"
	EventOrderCancelled   = "order.cancelled"
	EventOrderExpired     = "order.expired"
	EventOrderUnknown     = "order.unknown"
	EventOrderWaiting     = "order.waiting" // the service is short of funds and tries again
	EventOrderExecuted    = "order.executed"
	EventOrderEnded       = "order.ended"
	EventAddressChanged   = "address.changed" // may repeat: a type 4 without trackingId is new in each attempt
	EventDepositCredited  = "deposit.credited"
	EventDepositRejected  = "deposit.rejected"
	eventOrderStatePrefix = "order."
)

// The kinds of alarms of the merchant's end.
const (
	AlarmUserDiffers         = "user_differs"          // a callback names another tenantUserId than its order
	AlarmOrderUnknown        = "order_unknown"         // the service asks for, or executed, what was never ordered
	AlarmExecutedUnconfirmed = "executed_unconfirmed"  // the service executed what was not confirmed
	AlarmExecutedDiffers     = "executed_differs"      // it executed other details than those confirmed
	AlarmExecutedTwice       = "executed_twice"        // two transactions for one order
	AlarmExecutedAfterEnd    = "executed_after_end"    // type 3 after type 5
	AlarmEndedAfterExecution = "ended_after_execution" // type 5 after type 3
	AlarmPossibleDuplicate   = "possible_duplicate"    // a deposit awaits a decision
)

// Cursor is how far a named reader has acknowledged the feeds.
type Cursor struct {
	Name     string
	Deposits int64
	Events   int64
	Updated  Millis // 0: never moved
}

// Feed is one of the two feeds of the merchant's end.
type Feed int

// The feeds.
const (
	FeedDeposits Feed = 0
	FeedEvents   Feed = 1
)

func (f Feed) String() string {
	if f == FeedEvents {
		return "events"
	}
	return "deposits"
}

// Forward is one entry of a feed that this node alone tells the merchant's
// application of until its lease ends.
type Forward struct {
	Feed     Feed
	Seq      int64
	Attempts int          // started, this one included
	Deposit  TakenDeposit // where Feed is FeedDeposits
	Event    Event        // where Feed is FeedEvents
}

// Forwarded ends the attempt of a Forward.
type Forwarded struct {
	Feed     Feed
	Seq      int64
	Attempts int // of the Forward
	Done     bool
	Due      Millis // where not Done: the next attempt
	Reason   string // where not Done: a fixed word
}

// GatewayStats counts what the merchant's end holds.
type GatewayStats struct {
	Inbox         int64 // entries ever recorded
	InboxOpen     int64 // of those, not settled
	Deposits      int64
	DepositsHeld  int64
	Events        int64
	Orders        map[OrderState]int64
	Forwards      int64  // entries still to be told
	ForwardOldest Millis // when the oldest of them was recorded; Never without
}

// RoleApp is what a token of the merchant's end may do beside RoleViewer and
// RoleOperator: add and cancel orders, and acknowledge the feeds. The service's
// API gives it nothing, as that of the merchant's end gives RoleIngest nothing.
const RoleApp Role = "app"
