package countersign

// The notices: every type but 1 and 2. The interface names them only; their
// members are those that live services send (PROTOCOL.md, Messages).

// WithdrawalDone is callback type 3: a withdrawal was executed.
type WithdrawalDone struct {
	Head
	CallBackID string // the withdrawal
	TxID       string // the transaction that executed it

	// What moved. Empty only if a lenient parse allowed the members to be absent.
	ChainName string
	Symbol    string
	Amount    Amount
	ToAddress string

	FromAddress string // may be absent
	NewAddress  string // may be absent; has no effect
}

// CallbackType returns TypeWithdraw.
func (w *WithdrawalDone) CallbackType() Type { return TypeWithdraw }

// OrderID returns the callBackId.
func (w *WithdrawalDone) OrderID() string { return w.CallBackID }

// Content returns what moved, for which withdrawal, in which transaction.
func (w *WithdrawalDone) Content() []string {
	return []string{w.TenantUserID, w.CallBackID, w.TxID, w.ChainName, w.Symbol, w.Amount.Canonical(),
		AddressKey(w.ToAddress)}
}

// Marshal returns the canonical bytes. It inverts ParseCallback.
func (w *WithdrawalDone) Marshal() ([]byte, error) { return encode(w) }

func (w *WithdrawalDone) members(c *codec) {
	w.first(c, TypeWithdraw, required, required)
	c.id("callBackId", &w.CallBackID, required)
	c.text("txId", &w.TxID, required)
	c.text("chainName", &w.ChainName, lenient)
	c.text("symbol", &w.Symbol, lenient)
	c.amount("amount", &w.Amount, lenient)
	c.text("fromAddress", &w.FromAddress, optional)
	c.text("toAddress", &w.ToAddress, lenient)
	c.text("newAddress", &w.NewAddress, optional)
	w.last(c)
}

// AddressChange is callback type 4: a user's deposit address was replaced.
type AddressChange struct {
	Head              // its TrackingID may be empty
	ChainName  string // empty only if a lenient parse allowed it to be absent
	Symbol     string // likewise
	ToAddress  string // may be absent
	NewAddress string // the address from now on
}

// CallbackType returns TypeAddress.
func (a *AddressChange) CallbackType() Type { return TypeAddress }

// Content returns whose address was replaced by which.
func (a *AddressChange) Content() []string {
	return []string{a.TenantUserID, a.ChainName, a.Symbol, AddressKey(a.ToAddress), AddressKey(a.NewAddress)}
}

// CountingAddress returns the deposit address that counts: in type 4, and only
// there, newAddress replaces toAddress.
func (a *AddressChange) CountingAddress() string { return a.NewAddress }

// Marshal returns the canonical bytes. It inverts ParseCallback.
func (a *AddressChange) Marshal() ([]byte, error) { return encode(a) }

func (a *AddressChange) members(c *codec) {
	a.first(c, TypeAddress, nullable, required)
	c.text("chainName", &a.ChainName, lenient)
	c.text("symbol", &a.Symbol, lenient)
	c.text("toAddress", &a.ToAddress, optional)
	c.text("newAddress", &a.NewAddress, required)
	a.last(c)
}

// WithdrawalEnded is callback type 5: a withdrawal ended without being executed,
// for any reason. Its funds may be unfrozen (PROTOCOL.md, M9).
type WithdrawalEnded struct {
	Head
	CallBackID string // the withdrawal
	ToAddress  string // its target; may be absent
}

// CallbackType returns TypeInvalidAddress.
func (w *WithdrawalEnded) CallbackType() Type { return TypeInvalidAddress }

// OrderID returns the callBackId.
func (w *WithdrawalEnded) OrderID() string { return w.CallBackID }

// Content returns which withdrawal ended.
func (w *WithdrawalEnded) Content() []string { return []string{w.TenantUserID, w.CallBackID} }

// Marshal returns the canonical bytes. It inverts ParseCallback.
func (w *WithdrawalEnded) Marshal() ([]byte, error) { return encode(w) }

func (w *WithdrawalEnded) members(c *codec) {
	w.first(c, TypeInvalidAddress, required, required)
	c.id("callBackId", &w.CallBackID, required)
	c.text("toAddress", &w.ToAddress, optional)
	w.last(c)
}

// WithdrawalNotice is a callback whose type says all about a released withdrawal:
// it waits for funds (6) or for the fees of its chain (7). Its funds stay frozen, and
// the service tries it again (PROTOCOL.md, M9).
type WithdrawalNotice struct {
	Type Type // one with a Report
	Head
	CallBackID string // the withdrawal
}

func withdrawalNotice(t Type) message { return &WithdrawalNotice{Type: t} }

// CallbackType returns Type.
func (n *WithdrawalNotice) CallbackType() Type { return n.Type }

// OrderID returns the callBackId.
func (n *WithdrawalNotice) OrderID() string { return n.CallBackID }

// Content returns which withdrawal waits.
func (n *WithdrawalNotice) Content() []string { return []string{n.TenantUserID, n.CallBackID} }

// Marshal returns the canonical bytes. It inverts ParseCallback.
func (n *WithdrawalNotice) Marshal() ([]byte, error) { return encode(n) }

func (n *WithdrawalNotice) members(c *codec) {
	n.first(c, n.Type, required, required)
	if n.Type.Report() == "" {
		c.fail("type", "is none with callBackId alone")
	}
	c.id("callBackId", &n.CallBackID, required)
	n.last(c)
}

// NoticeAnswer is the plaintext of the data of a response to a notice
// (PROTOCOL.md, Answers). Only type and requestUUID must be there.
type NoticeAnswer struct {
	Type         Type
	TrackingID   string
	TenantUserID string
	CallBackID   string
	TxID         string
	ChainName    string
	Symbol       string
	Amount       Amount
	FromAddress  string
	ToAddress    string
	RequestUUID  string  // of the attempt that is answered
	AsSent       Members // forms that differ from the usual: see Head.AsSent
	Extra        Members
}

// noticeAnswer returns the members that the answers to all notices repeat.
func noticeAnswer(cb Callback) NoticeAnswer {
	h := cb.Common()
	return NoticeAnswer{
		Type: cb.CallbackType(), TrackingID: h.TrackingID, TenantUserID: h.TenantUserID, CallBackID: cb.OrderID(),
		RequestUUID: h.RequestUUID, AsSent: h.AsSent,
	}
}

// notice compares what all notices have in common.
func (e *echo) notice(sent Callback, answer Answer) NoticeAnswer {
	a, ok := answer.(NoticeAnswer)
	e.note("type", ok && a.Type == sent.CallbackType())
	e.text("trackingId", sent.Common().TrackingID, a.TrackingID)
	e.text("tenantUserId", sent.User(), a.TenantUserID)
	e.text("callBackId", sent.OrderID(), a.CallBackID)
	return a
}

// Accept returns a NoticeAnswer, which repeats the members of w.
func (w *WithdrawalDone) Accept(Details) Answer {
	a := noticeAnswer(w)
	a.TxID, a.ChainName, a.Symbol, a.Amount = w.TxID, w.ChainName, w.Symbol, w.Amount
	a.FromAddress, a.ToAddress = w.FromAddress, w.ToAddress
	return a
}

// Differs compares all members that an answer can repeat.
func (w *WithdrawalDone) Differs(answer Answer) string {
	var e echo
	a := e.notice(w, answer)
	e.text("txId", w.TxID, a.TxID)
	e.text("chainName", w.ChainName, a.ChainName)
	e.text("symbol", w.Symbol, a.Symbol)
	e.amount("amount", w.Amount, a.Amount)
	e.address("fromAddress", w.FromAddress, a.FromAddress)
	e.address("toAddress", w.ToAddress, a.ToAddress)
	return e.differs
}

// Accept returns a NoticeAnswer. Its ToAddress is the address that counts from now on.
func (a *AddressChange) Accept(Details) Answer {
	answer := noticeAnswer(a)
	answer.ChainName, answer.Symbol, answer.ToAddress = a.ChainName, a.Symbol, a.CountingAddress()
	return answer
}

// Differs compares the identifiers and the address, which may be either: some
// merchants repeat the old address, others the new one.
func (a *AddressChange) Differs(answer Answer) string {
	var e echo
	got := e.notice(a, answer)
	if a.ToAddress == "" || !SameAddress(a.ToAddress, got.ToAddress) {
		e.address("toAddress", a.NewAddress, got.ToAddress)
	}
	return e.differs
}

// Accept returns a NoticeAnswer.
func (w *WithdrawalEnded) Accept(Details) Answer { return noticeAnswer(w) }

// Differs compares the identifiers and the address.
func (w *WithdrawalEnded) Differs(answer Answer) string {
	var e echo
	a := e.notice(w, answer)
	e.address("toAddress", w.ToAddress, a.ToAddress)
	return e.differs
}

// Accept returns a NoticeAnswer.
func (n *WithdrawalNotice) Accept(Details) Answer { return noticeAnswer(n) }

// Differs compares the identifiers.
func (n *WithdrawalNotice) Differs(answer Answer) string {
	var e echo
	e.notice(n, answer)
	return e.differs
}

// UUID returns the requestUUID.
func (a NoticeAnswer) UUID() string { return a.RequestUUID }

// Shortest returns an answer with the type and the requestUUID alone.
func (a NoticeAnswer) Shortest() Answer {
	return NoticeAnswer{Type: a.Type, RequestUUID: a.RequestUUID, AsSent: a.AsSent}
}

// Marshal returns the canonical bytes. It inverts ParseAnswer.
func (a NoticeAnswer) Marshal() ([]byte, error) { return encode(&a) }

func (a *NoticeAnswer) members(c *codec) {
	c.asSent = &a.AsSent
	c.kind(&a.Type, 0)
	if !a.Type.Effect().IsNotice() {
		c.fail("type", "is not that of a notice")
	}
	c.id("trackingId", &a.TrackingID, optional)
	c.id("tenantUserId", &a.TenantUserID, optional)
	c.id("callBackId", &a.CallBackID, optional)
	c.text("txId", &a.TxID, optional)
	c.text("chainName", &a.ChainName, optional)
	c.text("symbol", &a.Symbol, optional)
	c.amount("amount", &a.Amount, optional)
	c.text("fromAddress", &a.FromAddress, optional)
	c.text("toAddress", &a.ToAddress, optional)
	c.extra(&a.Extra, "requestUUID")
	c.text("requestUUID", &a.RequestUUID, identifier)
}
