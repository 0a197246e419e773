package countersign

// RiskUnknown is the risk level of a request that left it out or said it in words,
// which only a lenient parse allows. It is never written, and is not the level 0.
const RiskUnknown = -1

// Deposit is callback type 1: a user's deposit arrived (PROTOCOL.md, Messages).
type Deposit struct {
	Head

	TxID          string // transaction hash
	ChainName     string // such as TRON, ETH
	Symbol        string // token symbol, such as USDT
	Amount        Amount
	FromAddress   string // the user's external address; may be empty
	ToAddress     string // the user's deposit address
	RiskLevelFrom int64  // 0 to 100, or RiskUnknown
	RiskLevelTo   int64  // 0 to 100, or RiskUnknown
	TxIndex       int64  // position within the block or transaction, or -1 for none
	NewAddress    string // has an effect in type 4 only; may be empty
}

// CallbackType returns TypeDeposited.
func (d *Deposit) CallbackType() Type { return TypeDeposited }

// Content returns only what a credit depends on. Between two attempts a risk level may
// change and a txIndex may become known.
func (d *Deposit) Content() []string {
	return []string{d.TenantUserID, d.TxID, d.ChainName, d.Symbol, d.Amount.Canonical(), AddressKey(d.ToAddress)}
}

// Marshal returns the canonical bytes. It inverts ParseCallback.
func (d *Deposit) Marshal() ([]byte, error) { return encode(d) }

func (d *Deposit) members(c *codec) {
	d.first(c, TypeDeposited, required, required)
	c.text("txId", &d.TxID, required)
	c.text("chainName", &d.ChainName, required)
	c.text("symbol", &d.Symbol, required)
	c.amount("amount", &d.Amount, required)
	c.text("fromAddress", &d.FromAddress, mayBeEmpty|lenient)
	c.text("toAddress", &d.ToAddress, required)
	c.whole("riskLevelFrom", &d.RiskLevelFrom, 0, 100, RiskUnknown, true, lenient|noEffect)
	c.whole("riskLevelTo", &d.RiskLevelTo, 0, 100, RiskUnknown, true, lenient|noEffect)
	c.whole("txIndex", &d.TxIndex, -1, maxWhole, -1, false, lenient)
	c.text("newAddress", &d.NewAddress, mayBeEmpty|lenient)
	d.last(c)
}

// Accept returns a DepositAnswer, which repeats the members of d.
func (d *Deposit) Accept(Details) Answer {
	return DepositAnswer{
		TrackingID: d.TrackingID, TxID: d.TxID, TxIndex: d.TxIndex, ChainName: d.ChainName,
		Symbol: d.Symbol, Amount: d.Amount, FromAddress: d.FromAddress, ToAddress: d.ToAddress,
		TenantUserID: d.TenantUserID, CallBackID: Null, State: Null, TenantType: Null,
		RequestUUID: d.RequestUUID, AsSent: d.AsSent,
	}
}

// Differs compares all repeated members except txIndex: in answers the interface describes it as an index in the block,
// and in requests differently.
func (d *Deposit) Differs(answer Answer) string {
	a, ok := answer.(DepositAnswer)
	if !ok {
		return "type"
	}
	var e echo
	e.text("trackingId", d.TrackingID, a.TrackingID)
	e.text("txId", d.TxID, a.TxID)
	e.text("chainName", d.ChainName, a.ChainName)
	e.text("symbol", d.Symbol, a.Symbol)
	e.text("tenantUserId", d.TenantUserID, a.TenantUserID)
	e.amount("amount", d.Amount, a.Amount)
	e.address("fromAddress", d.FromAddress, a.FromAddress)
	e.address("toAddress", d.ToAddress, a.ToAddress)
	return e.differs
}

// DepositAnswer is the plaintext of the data of a response to a Deposit
// (PROTOCOL.md, Answers). Only type and requestUUID must be there.
type DepositAnswer struct {
	TrackingID   string
	TxID         string
	TxIndex      int64 // -1 if absent
	ChainName    string
	Symbol       string
	Amount       Amount
	FromAddress  string
	ToAddress    string
	TenantUserID string
	// CallBackID, State and TenantType have no known meaning; live services
	// show them as null. The empty Raw leaves the member out.
	CallBackID, State, TenantType Raw

	RequestUUID string  // of the attempt that is answered
	AsSent      Members // forms that differ from the usual: see Head.AsSent
	Extra       Members
}

// UUID returns the requestUUID.
func (a DepositAnswer) UUID() string { return a.RequestUUID }

// Shortest returns an answer with the type and the requestUUID alone.
func (a DepositAnswer) Shortest() Answer {
	return DepositAnswer{TxIndex: -1, RequestUUID: a.RequestUUID, AsSent: a.AsSent}
}

// Marshal returns the canonical bytes. It inverts ParseAnswer.
func (a DepositAnswer) Marshal() ([]byte, error) { return encode(&a) }

func (a *DepositAnswer) members(c *codec) {
	c.asSent = &a.AsSent
	t := TypeDeposited
	c.kind(&t, TypeDeposited)
	c.id("trackingId", &a.TrackingID, optional)
	c.text("txId", &a.TxID, optional)
	c.whole("txIndex", &a.TxIndex, -1, maxWhole, -1, false, optional)
	c.text("chainName", &a.ChainName, optional)
	c.text("symbol", &a.Symbol, optional)
	c.amount("amount", &a.Amount, optional)
	c.text("fromAddress", &a.FromAddress, optional)
	c.text("toAddress", &a.ToAddress, optional)
	c.id("tenantUserId", &a.TenantUserID, optional)
	c.raw("callBackId", &a.CallBackID)
	c.raw("state", &a.State)
	c.raw("tenantType", &a.TenantType)
	c.extra(&a.Extra, "requestUUID")
	c.text("requestUUID", &a.RequestUUID, identifier)
}
