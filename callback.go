package countersign

import "fmt"

// MaxMessage is the largest plaintext or response, in bytes, that the parsers
// read (PROTOCOL.md, HTTP).
const MaxMessage = 64 << 10

// MaxAnswer returns the largest plaintext of an answer, in bytes, to a request whose plaintext has request bytes
// (PROTOCOL.md, R9). An answer repeats members of its request, and escapes may triple their length.
func MaxAnswer(request int) int { return max(4<<10, 3*request) }

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

// ParseOptions relaxes the rules of a parser. The zero value is strict.
type ParseOptions struct {
	// Lenient is for services that differ from the interface. It allows the
	// members marked L in PROTOCOL.md, M3, to be absent, and other forms of
	// members where they say the same (PROTOCOL.md, M12). Head.AsSent keeps those.
	Lenient bool
}

// ParseCallback reads an opened request (PROTOCOL.md, Messages). An error is a
// *MemberError or wraps ErrMalformed or ErrUnknownType. ParseCallback neither
// changes nor keeps plaintext.
func ParseCallback(plaintext []byte, o ParseOptions) (Callback, error) {
	m, c, err := readCallback(plaintext, o)
	if err == nil {
		err = c.finish()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Faults returns every error of ParseCallback, which itself returns the first: one *MemberError for
// each member that breaks its rule, in the order of PROTOCOL.md, M3. It is empty if ParseCallback
// takes the request.
func Faults(plaintext []byte, o ParseOptions) []error {
	_, c, err := readCallback(plaintext, o)
	if err != nil {
		return []error{err}
	}
	var faults []error
	for _, f := range c.faults {
		faults = append(faults, f)
	}
	return faults
}

// readCallback reads as much of a request as can be read. The codec has its
// faults.
func readCallback(plaintext []byte, o ParseOptions) (message, *codec, error) {
	obj, err := scan(plaintext)
	if err != nil {
		return nil, nil, err
	}
	t, err := requestType(obj, o)
	if err != nil {
		return nil, nil, err
	}
	if !t.Known() {
		return nil, nil, fmt.Errorf("%w: %d", ErrUnknownType, int(t))
	}
	m := types[t].empty(t)
	c := codec{obj: obj, lenient: o.Lenient}
	m.members(&c)
	return m, &c, nil
}

// message is a Callback that describes its members to a codec.
type message interface {
	Callback
	members(c *codec)
}

func encode(m interface{ members(c *codec) }) ([]byte, error) {
	c := codec{out: make([]byte, 0, 512)}
	m.members(&c)
	if err := c.finish(); err != nil {
		return nil, err
	}
	return c.out, nil
}
