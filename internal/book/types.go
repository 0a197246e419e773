package book

import (
	"strconv"

	"countersign"
	"countersign/internal/db"
	"countersign/merchant"
)

// Record is one entry of the inbox, as listed.
type Record struct {
	Seq               int64
	Type              countersign.Type
	ID                string
	TenantUserID      string
	CallBackID        string // may be empty
	PossibleDuplicate bool
	Suspect           bool // its blocks belong to another callback
	Settled           bool
	Claims            int64
	Created, Ended    db.Millis
	Reply             merchant.Reply // once Settled
}

// Filter selects entries; zero members select all.
type Filter struct {
	Type       countersign.Type
	ID         string
	CallBackID string
	Open       bool // only those that are not settled
}

// DepositState is the state of an accepted deposit.
type DepositState string

// The states of a deposit: taken, or held → credited | rejected.
const (
	DepositTaken    DepositState = "taken"    // counts
	DepositHeld     DepositState = "held"     // a possible duplicate or suspect; awaits a decision
	DepositCredited DepositState = "credited" // was held, counts
	DepositRejected DepositState = "rejected" // was held, does not count
)

// TakenDeposit is one entry of the feed of deposits, which has no gaps in Seq.
type TakenDeposit struct {
	Seq       int64
	Deposit   countersign.Deposit // without requestUUID and unknown members
	AsSent    string              // JSON object of the members that the Deposit does not show as they were sent; empty if there is none
	State     DepositState
	Suspect   bool // its blocks belong to another callback; it is not called a possible duplicate then
	Taken     db.Millis
	Decided   db.Millis // 0 if nothing was decided
	DecidedBy string
	Reason    string
}

// PossibleDuplicate reports whether the deposit was a possible duplicate.
func (d TakenDeposit) PossibleDuplicate() bool { return d.State != DepositTaken && !d.Suspect }

// AsTaken is d as it was when it was taken. The feed and the forwarded message tell
// of that alone: a decision is an event of its own, and told in both places a
// deposit would be credited twice.
func (d TakenDeposit) AsTaken() TakenDeposit {
	if d.State != DepositTaken {
		d.State = DepositHeld
	}
	d.Decided, d.DecidedBy, d.Reason = 0, "", ""
	return d
}

// OrderState is the state of an order.
type OrderState string

// The states of an order: open → held → approved → confirmed → executed |
// ended; open, held or approved → declined | cancelled | expired. Unknown is a
// withdrawal that the service asked about too long before the merchant ordered it.
const (
	OrderOpen      OrderState = "open"
	OrderHeld      OrderState = "held"      // awaits a person
	OrderApproved  OrderState = "approved"  // by a person
	OrderConfirmed OrderState = "confirmed" // to the service; for ever
	OrderExecuted  OrderState = "executed"  // the service says so (type 3)
	OrderEnded     OrderState = "ended"     // without execution (type 5): its funds may be unfrozen
	OrderDeclined  OrderState = "declined"  // by a person or the policy
	OrderCancelled OrderState = "cancelled"
	OrderExpired   OrderState = "expired"
	OrderUnknown   OrderState = "unknown" // refused to the service before it was ordered
)

// known reports whether it is one of these.
func (s OrderState) known() bool {
	switch s {
	case OrderOpen, OrderHeld, OrderApproved, OrderConfirmed, OrderExecuted, OrderEnded, OrderDeclined, OrderCancelled, OrderExpired, OrderUnknown:
		return true
	}
	return false
}

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
	Expires      db.Millis         // not confirmed from this time on; Never for no expiry
	OrderedBy    string            // the token that ordered it; no part of the content; may be empty
}

// Order is an order and its present state.
type Order struct {
	NewOrder
	Seq       int64
	State     OrderState
	Reason    string           // of the last change of state; may be empty
	DecidedBy string           // who approved, declined or cancelled it, or "policy"
	Waiting   countersign.Type // 6 or 7: the service waits for funds and tries again; 0: it does not
	TxID      string           // if executed
	Created   db.Millis
	Updated   db.Millis
	Confirmed db.Millis // 0: never
	Ended     db.Millis // when its state became final; 0 before
}

// OrderFilter selects orders; zero members select all.
type OrderFilter struct {
	State        OrderState
	TenantUserID string
	Address      string
	TxID         string
	Span
}

// Span is a time in which rows were made, Since included and Until not. Zero: no bound.
type Span struct{ Since, Until db.Millis }

// DepositFilter selects deposits; zero members select all.
type DepositFilter struct {
	State        DepositState
	TrackingID   string
	TxID         string
	TenantUserID string
	Address      string // that it went to
	Span
}

// Asked says what the book knows of an order that the service asks about.
type Asked struct {
	Known bool
	Order Order // if Known
	// Since is when the service first asked. If that is not recorded, it is the
	// time of the look-up.
	Since db.Millis
}

// OrderChange changes an order from one state to another if it is still in the
// first.
type OrderChange struct {
	CallBackID   string
	TenantUserID string // of the order; checked if it is to be confirmed
	From, To     OrderState
	By           string
	Reason       string
	Alarm        string // kind of alarm to raise with it, or empty
	// Clock is read for a confirmation when the order is locked, because the
	// process may have stood still after it decided and the order may have expired
	// meanwhile. Nil: the caller's time is used.
	Clock func() db.Millis
	// Ceilings are the limits that a confirmation must not exceed. They hold
	// exactly, however many nodes confirm orders at once.
	Ceilings []Ceiling
}

// Ceiling bounds the sum of the amounts confirmed since Since with the order's
// symbol, the order itself included: of one tenant, or of all if TenantUserID is
// empty. Since is the caller's time, and other orders were confirmed at the times of
// their nodes, so the window is as exact as these clocks agree.
type Ceiling struct {
	TenantUserID string
	Since        db.Millis
	Max          countersign.Amount // required: the zero Amount allows nothing
}

// Spent is the sum of all amounts of Symbol, in any spelling, confirmed since Since: of one tenant, or
// of all if TenantUserID is empty. Orders that ended without execution do not count.
type Spent struct {
	Symbol       string
	TenantUserID string
	Since        db.Millis
	Sum          countersign.Sum
}

// Event is one entry of the feed of events, which has no gaps in Seq. Which members
// are set depends on the kind.
type Event struct {
	Seq          int64
	Kind         string // see the Event constants
	At           db.Millis
	CallBackID   string
	Deposit      int64 // seq in the feed of deposits; 0: none
	TenantUserID string
	State        string // the new state of the order or deposit
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
	EventOrderWaiting     = "order.waiting" // the service waits for funds and tries again
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
	AlarmOrderUnknown        = "order_unknown"         // the service asks about, or executed, a withdrawal that was never ordered
	AlarmExecutedUnconfirmed = "executed_unconfirmed"  // the service executed an order that was not confirmed
	AlarmExecutedDiffers     = "executed_differs"      // it executed other details than those confirmed
	AlarmExecutedTwice       = "executed_twice"        // two transactions for one order
	AlarmExecutedAfterEnd    = "executed_after_end"    // type 3 after type 5
	AlarmEndedAfterExecution = "ended_after_execution" // type 5 after type 3
	AlarmPossibleDuplicate   = "possible_duplicate"    // a deposit awaits a decision
	AlarmNotBound            = "not_bound"             // a callback is not bound, and the gateway refuses those
	AlarmBindingBroken       = "binding_broken"        // a callback is bound to other bytes than its own
	AlarmSpliced             = "spliced"               // a callback has blocks of another one; refused, or a deposit held
	AlarmOtherContent        = "other_content"         // a callback names a known identifier with other content
	AlarmDisproved           = "disproved"             // the merchant's own check says that there is no such deposit
	AlarmUnverified          = "unverified"            // the merchant's own check did not say yes in time
	AlarmAllRefused          = "all_refused"           // all callbacks of ten minutes were refused
	AlarmRestored            = "restored"              // the book was restored from a backup and is not reconciled
)

// Cursor is how far a named reader has acknowledged the feeds.
type Cursor struct {
	Name     string
	Deposits int64
	Events   int64
	Updated  db.Millis // 0: never moved
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

// Forward is one entry of a feed that only this node may send to the merchant's
// application until the lease ends.
type Forward struct {
	Feed     Feed
	Seq      int64
	Attempts int          // started, this one included
	Deposit  TakenDeposit // if Feed is FeedDeposits
	Event    Event        // if Feed is FeedEvents
}

// Forwarded ends the attempt of a Forward.
type Forwarded struct {
	Feed     Feed
	Seq      int64
	Attempts int // of the Forward
	Done     bool
	Due      db.Millis // if not Done: the next attempt
	Reason   string    // if not Done: a short text
}

// ForwardRow is an entry of a feed that was handed to the forwarding and that the
// application does not have.
type ForwardRow struct {
	Feed       Feed
	Seq        int64
	Attempts   int       // started
	Sending    bool      // an attempt is under way; Due ends its lease
	Due        db.Millis // the next attempt; Never if it was given up
	Created    db.Millis // when the entry was recorded
	Reason     string    // of the last attempt that failed; empty: none has
	Skipped    db.Millis // when a person gave it up; 0: nobody did
	SkippedBy  string    // the token
	SkipReason string
}

// ForwardFrom says which entry of each feed is the first to be forwarded. The zero
// value is the first that was never handed over.
type ForwardFrom struct{ Deposits, Events ForwardStart }

// ForwardStart says where the forwarding of a feed starts.
type ForwardStart struct {
	Set  bool  // false: the first entry that was never handed over
	Now  bool  // the next new entry
	From int64 // else: the number of the entry; 0: the first
}

func (s ForwardStart) String() string {
	switch {
	case !s.Set:
		return ""
	case s.Now:
		return "now"
	}
	return strconv.FormatInt(s.From, 10)
}

// Forwarding is how far a feed was handed to the forwarding.
type Forwarding struct {
	Feed  Feed
	Begun db.Millis // when a gateway first forwarded it; 0: none did
	Seq   int64     // the last entry that was handed over
	Last  int64     // the last entry of the feed
	Fresh int64     // how many entries are still to be handed over
}

// Stats counts the rows of the merchant's database.
type Stats struct {
	Inbox         int64 // entries ever recorded
	InboxOpen     int64 // of those, not settled
	Deposits      int64
	DepositsHeld  int64
	Events        int64
	Orders        map[OrderState]int64
	Forwarding    [2]Forwarding    // by feed
	Forwards      int64            // entries still to be sent, those of Retrying included
	Retrying      int64            // of them, those that are being sent or were sent in vain
	ForwardOldest db.Millis        // when the oldest of all was recorded; Never if there is none
	Skipped       int64            // entries that a person gave up
	Refused       map[string]int64 // requests refused, by reason
}
