package countersign

// WithdrawalRequest is callback type 2: the service asks the merchant to
// countersign a withdrawal (PROTOCOL.md, Messages). It says which withdrawal, but
// not where the money goes; the merchant's answer says that. After a lenient parse
// its TrackingID and TenantUserID may be empty.
type WithdrawalRequest struct {
	Head
	CallBackID string // the withdrawal; unique at the merchant
}

// CallbackType returns TypeRequestWithdraw.
func (w *WithdrawalRequest) CallbackType() Type { return TypeRequestWithdraw }

// EventID returns the callBackId.
func (w *WithdrawalRequest) EventID() string { return w.CallBackID }

// OrderID returns the callBackId.
func (w *WithdrawalRequest) OrderID() string { return w.CallBackID }

// Content returns the user and the trackingId, each empty if the request does not name
// it. A second withdrawal with the callBackId of another must not be confirmed by
// the answer for that other.
func (w *WithdrawalRequest) Content() []string { return []string{w.TenantUserID, w.TrackingID} }

// Marshal returns the canonical bytes. It inverts ParseCallback.
func (w *WithdrawalRequest) Marshal() ([]byte, error) { return encode(w) }

func (w *WithdrawalRequest) members(c *codec) {
	w.first(c, TypeRequestWithdraw, lenient, lenient)
	c.id("callBackId", &w.CallBackID, required)
	w.last(c)
}

// Accept returns a WithdrawalAnswer, which confirms w with the details of the merchant's order. If w has no
// tenantUserId, the caller sets that of the order in the answer.
func (w *WithdrawalRequest) Accept(order Details) Answer {
	return WithdrawalAnswer{
		TenantUserID: w.TenantUserID, CallBackID: w.CallBackID, Details: order, RequestUUID: w.RequestUUID, AsSent: w.AsSent,
	}
}

// Differs compares the identifiers. An answer must have both.
func (w *WithdrawalRequest) Differs(answer Answer) string {
	a, ok := answer.(WithdrawalAnswer)
	switch {
	case !ok:
		return "type"
	case a.CallBackID != w.CallBackID:
		return "callBackId"
	case a.TenantUserID != w.TenantUserID:
		return "tenantUserId"
	}
	return ""
}

// Details are what a withdrawal moves and where to. The tags describe them in the APIs' JSON.
type Details struct {
	Address   string `json:"address" minLength:"1" maxLength:"200" doc:"target, 1 to 200 characters"`
	ChainName string `json:"chainName" minLength:"1" maxLength:"64" doc:"the chain, 1 to 64 characters" example:"TRON"`
	Symbol    string `json:"symbol" minLength:"1" maxLength:"64" doc:"the currency, 1 to 64 characters" example:"USDT"`
	Amount    Amount `json:"amount,omitzero" required:"true" doc:"in units of the currency: an exact decimal of at most 78 digits, without sign and exponent; kept as written"` // above 0
}

// Validate returns a *MemberError for the first member that is missing or invalid: the address must be Legible, chain
// and symbol VisibleASCII, the amount above 0.
func (d Details) Validate() error {
	c := codec{}
	d.members(&c)
	if len(c.faults) > 0 {
		return c.faults[0]
	}
	return nil
}

func (d *Details) members(c *codec) {
	c.text("address", &d.Address, legible)
	c.text("chainName", &d.ChainName, ascii)
	c.text("symbol", &d.Symbol, ascii)
	c.amount("amount", &d.Amount, required)
	if d.Amount.IsSet() && !d.Amount.IsPositive() {
		c.fail("amount", "is not above 0")
	}
}

// Differs returns the name of the first member in which d and order differ, and "" if they agree
// (PROTOCOL.md, D2): amounts by value, addresses by SameAddress, the rest byte for byte. Details that
// are not valid agree with nothing.
func (d Details) Differs(order Details) string {
	switch {
	case d.Address == "" || !SameAddress(d.Address, order.Address):
		return "address"
	case d.ChainName == "" || d.ChainName != order.ChainName:
		return "chainName"
	case d.Symbol == "" || d.Symbol != order.Symbol:
		return "symbol"
	case !d.Amount.IsPositive() || !d.Amount.Equal(order.Amount):
		return "amount"
	}
	return ""
}

// Get returns the text of a member that Differs names.
func (d Details) Get(member string) string {
	return map[string]string{"address": d.Address, "chainName": d.ChainName, "symbol": d.Symbol,
		"amount": d.Amount.String()}[member]
}

// WithdrawalAnswer is the plaintext of the data of a response to a
// WithdrawalRequest (PROTOCOL.md, Answers). Every member must be there. A parsed answer is complete but
// decides nothing: see Decision.
type WithdrawalAnswer struct {
	TenantUserID string
	CallBackID   string // unchanged from the request
	Details
	RequestUUID string  // of the attempt that is answered
	AsSent      Members // forms that differ from the usual: see Head.AsSent
	Extra       Members
}

// UUID returns the requestUUID.
func (a WithdrawalAnswer) UUID() string { return a.RequestUUID }

// Shortest returns a itself: the service needs all of it.
func (a WithdrawalAnswer) Shortest() Answer { return a }

// Marshal returns the canonical bytes. It inverts ParseAnswer.
func (a WithdrawalAnswer) Marshal() ([]byte, error) { return encode(&a) }

func (a *WithdrawalAnswer) members(c *codec) {
	c.asSent = &a.AsSent
	t := TypeRequestWithdraw
	c.kind(&t, TypeRequestWithdraw)
	c.id("tenantUserId", &a.TenantUserID, required)
	c.id("callBackId", &a.CallBackID, required)
	a.Details.members(c)
	c.extra(&a.Extra, "requestUUID")
	c.text("requestUUID", &a.RequestUUID, identifier)
}

// Decision is the decision about a withdrawal (PROTOCOL.md, Decision). The zero
// Decision is none and never moves money. The first decision stands for ever.
type Decision string

// The decisions. Only DecisionConfirmed lets the service execute.
const (
	DecisionNone      Decision = ""
	DecisionConfirmed Decision = "confirmed" // the merchant countersigned
	DecisionDeclined  Decision = "declined"  // the merchant refused for good
	DecisionExpired   Decision = "expired"   // no valid answer before the deadline
	DecisionCancelled Decision = "cancelled" // the service withdrew the question
)
