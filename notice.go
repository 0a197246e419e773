package countersign

// The callbacks of types 3 to 7. The interface names them only; their members
// are those that live services send (PROTOCOL.md, Messages).

// WithdrawalDone is callback type 3: a withdrawal was executed.
type WithdrawalDone struct {
	RequestUUID  string
	TrackingID   string
	TenantUserID string
	CallBackID   string // the withdrawal
	TxID         string // the transaction that executed it

	// What moved. Empty only where a lenient parse let them be absent.
	ChainName string
	Symbol    string
	Amount    Amount
	ToAddress string

	FromAddress string // may be absent
	NewAddress  string // may be absent; has no effect
	Business    int64
	Extra       Members
}

// CallbackType is TypeWithdraw.
func (w *WithdrawalDone) CallbackType() Type { return TypeWithdraw }

// EventID is the trackingId.
func (w *WithdrawalDone) EventID() string { return w.TrackingID }

// UUID is the requestUUID.
func (w *WithdrawalDone) UUID() string { return w.RequestUUID }

// User is the tenantUserId.
func (w *WithdrawalDone) User() string { return w.TenantUserID }

// Unknown is Extra.
func (w *WithdrawalDone) Unknown() Members { return w.Extra }

// Marshal gives the canonical bytes. It inverts ParseCallback.
func (w *WithdrawalDone) Marshal() ([]byte, error) { return encode(w) }

func (w *WithdrawalDone) members(c *codec) {
	t := TypeWithdraw
	c.kind(&t, TypeWithdraw)
	c.text("trackingId", &w.TrackingID, required)
	c.text("tenantUserId", &w.TenantUserID, required)
	c.text("callBackId", &w.CallBackID, required)
	c.text("txId", &w.TxID, required)
	c.text("chainName", &w.ChainName, lenient)
	c.text("symbol", &w.Symbol, lenient)
	c.amount("amount", &w.Amount, lenient)
	c.text("fromAddress", &w.FromAddress, optional)
	c.text("toAddress", &w.ToAddress, lenient)
	c.text("newAddress", &w.NewAddress, optional)
	c.business(&w.Business)
	c.extra(&w.Extra, "requestUUID")
	c.text("requestUUID", &w.RequestUUID, required)
}

// AddressChange is callback type 4: a user's deposit address was replaced.
type AddressChange struct {
	RequestUUID  string
	TrackingID   string // empty, and null on the wire, as a rule
	TenantUserID string
	ChainName    string // empty only where a lenient parse let it be absent
	Symbol       string // likewise
	ToAddress    string // may be absent
	NewAddress   string // the address from now on
	Business     int64
	Extra        Members
}

// CallbackType is TypeAddress.
func (a *AddressChange) CallbackType() Type { return TypeAddress }

// EventID is the trackingId, empty as a rule.
func (a *AddressChange) EventID() string { return a.TrackingID }

// UUID is the requestUUID.
func (a *AddressChange) UUID() string { return a.RequestUUID }

// User is the tenantUserId.
func (a *AddressChange) User() string { return a.TenantUserID }

// Unknown is Extra.
func (a *AddressChange) Unknown() Members { return a.Extra }

// CountingAddress is the deposit address that counts: in type 4, and only
// there, newAddress replaces toAddress.
func (a *AddressChange) CountingAddress() string { return a.NewAddress }

// Marshal gives the canonical bytes. It inverts ParseCallback.
func (a *AddressChange) Marshal() ([]byte, error) { return encode(a) }

func (a *AddressChange) members(c *codec) {
	t := TypeAddress
	c.kind(&t, TypeAddress)
	c.text("trackingId", &a.TrackingID, nullable)
	c.text("tenantUserId", &a.TenantUserID, required)
	c.text("chainName", &a.ChainName, lenient)
	c.text("symbol", &a.Symbol, lenient)
	c.text("toAddress", &a.ToAddress, optional)
	c.text("newAddress", &a.NewAddress, required)
	c.business(&a.Business)
	c.extra(&a.Extra, "requestUUID")
	c.text("requestUUID", &a.RequestUUID, required)
}

// WithdrawalEnded is callback type 5: a withdrawal ended, for whatever reason,
// without being executed. Its funds may be unfrozen.
type WithdrawalEnded struct {
	RequestUUID  string
	TrackingID   string
	TenantUserID string
	CallBackID   string // the withdrawal
	ToAddress    string // its target; may be absent
	Business     int64
	Extra        Members
}

// CallbackType is TypeInvalidAddress.
func (w *WithdrawalEnded) CallbackType() Type { return TypeInvalidAddress }

// EventID is the trackingId.
func (w *WithdrawalEnded) EventID() string { return w.TrackingID }

// UUID is the requestUUID.
func (w *WithdrawalEnded) UUID() string { return w.RequestUUID }

// User is the tenantUserId.
func (w *WithdrawalEnded) User() string { return w.TenantUserID }

// Unknown is Extra.
func (w *WithdrawalEnded) Unknown() Members { return w.Extra }

// Marshal gives the canonical bytes. It inverts ParseCallback.
func (w *WithdrawalEnded) Marshal() ([]byte, error) { return encode(w) }

func (w *WithdrawalEnded) members(c *codec) {
	t := TypeInvalidAddress
	c.kind(&t, TypeInvalidAddress)
	c.text("trackingId", &w.TrackingID, required)
	c.text("tenantUserId", &w.TenantUserID, required)
	c.text("callBackId", &w.CallBackID, required)
	c.text("toAddress", &w.ToAddress, optional)
	c.business(&w.Business)
	c.extra(&w.Extra, "requestUUID")
	c.text("requestUUID", &w.RequestUUID, required)
}

// FundsShort is callback types 6 and 7: a withdrawal waits, for funds or for
// the fees of its chain. It stays frozen and the service tries it again.
type FundsShort struct {
	Type         Type // TypeNotEnoughMoney or TypeNotEnoughHotMoney
	RequestUUID  string
	TrackingID   string
	TenantUserID string
	CallBackID   string // the withdrawal
	Business     int64
	Extra        Members
}

// CallbackType is Type.
func (f *FundsShort) CallbackType() Type { return f.Type }

// EventID is the trackingId.
func (f *FundsShort) EventID() string { return f.TrackingID }

// UUID is the requestUUID.
func (f *FundsShort) UUID() string { return f.RequestUUID }

// User is the tenantUserId.
func (f *FundsShort) User() string { return f.TenantUserID }

// Unknown is Extra.
func (f *FundsShort) Unknown() Members { return f.Extra }

// Marshal gives the canonical bytes. It inverts ParseCallback.
func (f *FundsShort) Marshal() ([]byte, error) { return encode(f) }

func (f *FundsShort) members(c *codec) {
	c.kind(&f.Type, 0)
	if f.Type != TypeNotEnoughMoney && f.Type != TypeNotEnoughHotMoney {
		c.fail("type", "is neither 6 nor 7")
	}
	c.text("trackingId", &f.TrackingID, required)
	c.text("tenantUserId", &f.TenantUserID, required)
	c.text("callBackId", &f.CallBackID, required)
	c.business(&f.Business)
	c.extra(&f.Extra, "requestUUID")
	c.text("requestUUID", &f.RequestUUID, required)
}

// NoticeAnswer is the plaintext of the data of a response to a callback of
// types 3 to 7 (PROTOCOL.md, Answers). Only type and requestUUID must be there.
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
	RequestUUID  string // of the attempt that is answered
	Extra        Members
}

// Answer is the answer that accepts w.
func (w *WithdrawalDone) Answer() NoticeAnswer {
	return NoticeAnswer{
		Type: TypeWithdraw, TrackingID: w.TrackingID, TenantUserID: w.TenantUserID, CallBackID: w.CallBackID,
		TxID: w.TxID, ChainName: w.ChainName, Symbol: w.Symbol, Amount: w.Amount,
		FromAddress: w.FromAddress, ToAddress: w.ToAddress, RequestUUID: w.RequestUUID,
	}
}

// Answer is the answer that accepts a. Its ToAddress is the address that
// counts from now on.
func (a *AddressChange) Answer() NoticeAnswer {
	return NoticeAnswer{
		Type: TypeAddress, TrackingID: a.TrackingID, TenantUserID: a.TenantUserID, ChainName: a.ChainName,
		Symbol: a.Symbol, ToAddress: a.CountingAddress(), RequestUUID: a.RequestUUID,
	}
}

// Answer is the answer that accepts w.
func (w *WithdrawalEnded) Answer() NoticeAnswer {
	return NoticeAnswer{
		Type: TypeInvalidAddress, TrackingID: w.TrackingID, TenantUserID: w.TenantUserID,
		CallBackID: w.CallBackID, RequestUUID: w.RequestUUID,
	}
}

// Answer is the answer that accepts f.
func (f *FundsShort) Answer() NoticeAnswer {
	return NoticeAnswer{
		Type: f.Type, TrackingID: f.TrackingID, TenantUserID: f.TenantUserID,
		CallBackID: f.CallBackID, RequestUUID: f.RequestUUID,
	}
}

// Marshal gives the canonical bytes. It inverts ParseNoticeAnswer.
func (a NoticeAnswer) Marshal() ([]byte, error) { return encode(&a) }

// ParseNoticeAnswer reads the opened data of a response to a callback of types
// 3 to 7. Errors are a *MemberError or wrap ErrMalformed.
func ParseNoticeAnswer(data []byte) (NoticeAnswer, error) {
	return parseAnswer[NoticeAnswer](data)
}

func (a *NoticeAnswer) members(c *codec) {
	c.kind(&a.Type, 0)
	if a.Type < TypeWithdraw || !a.Type.Known() {
		c.fail("type", "is not between 3 and 7")
	}
	c.text("trackingId", &a.TrackingID, optional)
	c.text("tenantUserId", &a.TenantUserID, optional)
	c.text("callBackId", &a.CallBackID, optional)
	c.text("txId", &a.TxID, optional)
	c.text("chainName", &a.ChainName, optional)
	c.text("symbol", &a.Symbol, optional)
	c.amount("amount", &a.Amount, optional)
	c.text("fromAddress", &a.FromAddress, optional)
	c.text("toAddress", &a.ToAddress, optional)
	c.extra(&a.Extra, "requestUUID")
	c.text("requestUUID", &a.RequestUUID, required)
}
