package countersign

// Callback is one thing the service says to a merchant: a *Deposit,
// *WithdrawalRequest, *WithdrawalDone, *AddressChange, *WithdrawalEnded or
// *WithdrawalNotice.
type Callback interface {
	// CallbackType returns the number in the member "type".
	CallbackType() Type
	// EventID returns the identifier that stays the same through every attempt:
	// trackingId, and for a WithdrawalRequest callBackId. It is empty for an
	// AddressChange without trackingId.
	EventID() string
	// OrderID returns the callBackId of the withdrawal that the callback is about. It
	// is empty for a Deposit and an AddressChange.
	OrderID() string
	// Common returns the head of the callback itself, not a copy.
	Common() *Head
	// UUID returns the requestUUID of the attempt that carried the callback.
	UUID() string
	// User returns the tenantUserId.
	User() string
	// Unknown returns the members that this package has no meaning for.
	Unknown() Members
	// Content returns the members that decide the callback's effect: amounts by
	// Amount.Canonical, addresses by AddressKey. A callback of the same type and
	// EventID with other content is not a repetition but a contradiction
	// (PROTOCOL.md, I1).
	Content() []string
	// Accept returns the answer that accepts the callback. For a WithdrawalRequest it
	// confirms the withdrawal with the details of the merchant's order; for all
	// other callbacks order has no effect.
	Accept(order Details) Answer
	// Differs returns the name of the first member in which a contradicts the
	// callback, and "" if a answers it. A member that either leaves out agrees. It
	// compares neither the requestUUID nor the details of a WithdrawalAnswer.
	Differs(a Answer) string
	// Marshal returns the canonical bytes, with requestUUID last. The error is a
	// *MemberError if a member breaks its rule.
	Marshal() ([]byte, error)
}

// Head has the members that every callback carries.
type Head struct {
	RequestUUID  string // new for every attempt; returned in the answer
	TrackingID   string // the same for every attempt; empty, and null on the wire, in type 4 alone
	TenantUserID string // the user, in the merchant's own system

	Business int64   // reserved by the service; it has no effect
	Extra    Members // members without a known meaning
	// AsSent holds the members that a lenient parse converted or could not read,
	// as they were sent: an amount with an exponent, a number for a text. Marshal
	// writes such a member as it was sent, in the callback and in its answer, if
	// that still says the member's value.
	AsSent Members
}

// Common returns h.
func (h *Head) Common() *Head { return h }

// EventID returns the trackingId.
func (h *Head) EventID() string { return h.TrackingID }

// OrderID returns "", because the callback is not about a withdrawal.
func (h *Head) OrderID() string { return "" }

// UUID returns the requestUUID.
func (h *Head) UUID() string { return h.RequestUUID }

// User returns the tenantUserId.
func (h *Head) User() string { return h.TenantUserID }

// Unknown returns Extra.
func (h *Head) Unknown() Members { return h.Extra }

// first and last describe the members of every callback, around its own.
func (h *Head) first(c *codec, t Type, trackingID, tenantUserID presence) {
	c.asSent = &h.AsSent
	c.kind(&t, t)
	c.id("trackingId", &h.TrackingID, trackingID)
	c.id("tenantUserId", &h.TenantUserID, tenantUserID)
}

func (h *Head) last(c *codec) {
	c.whole("business", &h.Business, -maxWhole, maxWhole, 0, false, lenient|noEffect)
	c.extra(&h.Extra, "requestUUID")
	c.text("requestUUID", &h.RequestUUID, identifier)
}

// message is a Callback that describes its members to a codec.
type message interface {
	Callback
	members(c *codec)
}
