package gateway

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/internal/jsonapi"
	"countersign/internal/store"
)

// What the API of the other end has too.
type (
	// Problem is an answer that says what went wrong.
	Problem = jsonapi.Problem
	// Time is a moment in milliseconds since 1970 UTC.
	Time = jsonapi.Time
	// Secret is a text that is shown to its owner alone.
	Secret = jsonapi.Secret
	// FeedOptions says where a reader of a feed stands.
	FeedOptions = jsonapi.FeedOptions
)

func timeOf(m store.Millis) Time { return jsonapi.TimeOf(m) }

// amountSchema stands for countersign.Amount in the OpenAPI document.
type amountSchema struct{}

// Schema describes an amount.
func (amountSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: jsonapi.FormatDecimal, Description: "exact decimal number, such as 2.50", Examples: []any{"2.50"}}
}

// NewOrder is a withdrawal that the merchant orders, before the service asks
// for it.
type NewOrder struct {
	CallBackID   string             `json:"callBackId" minLength:"1" maxLength:"200" doc:"what the service will ask for; the same again is the same order"`
	TenantUserID string             `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"whose withdrawal it is"`
	Address      string             `json:"address" minLength:"1" maxLength:"200" doc:"target"`
	ChainName    string             `json:"chainName" minLength:"1" maxLength:"64"`
	Symbol       string             `json:"symbol" minLength:"1" maxLength:"64"`
	Amount       countersign.Amount `json:"amount" doc:"above 0"`
	ExpiresAt    Time               `json:"expiresAt,omitzero" doc:"not confirmed from then on; absent: never ends by itself"`
	Labels       map[string]string  `json:"labels,omitempty" doc:"at most 32, for the policy"`
}

// OrderStatus is an order and what became of it. One that the service asked for
// and nobody ordered, in state unknown, has no details.
type OrderStatus struct {
	CallBackID   string             `json:"callBackId"`
	TenantUserID string             `json:"tenantUserId"`
	Address      string             `json:"address,omitempty" doc:"target"`
	ChainName    string             `json:"chainName,omitempty"`
	Symbol       string             `json:"symbol,omitempty"`
	Amount       countersign.Amount `json:"amount,omitzero"`
	ExpiresAt    Time               `json:"expiresAt,omitzero"`
	Labels       map[string]string  `json:"labels,omitempty"`

	State     string `json:"state" enum:"open,held,approved,confirmed,executed,ended,declined,cancelled,expired,unknown"`
	Reason    string `json:"reason,omitempty" doc:"of the last change of state"`
	DecidedBy string `json:"decidedBy,omitempty" doc:"token that approved, declined or cancelled it; policy or countersign where no person did"`
	Waiting   int    `json:"waiting,omitempty" enum:"6,7" doc:"type of the callback that says that the service is short of funds and tries again"`
	TxID      string `json:"txId,omitempty" doc:"where executed"`
	Created   Time   `json:"created"`
	Updated   Time   `json:"updated"`
	Confirmed Time   `json:"confirmed,omitzero" doc:"when it was confirmed to the service"`
	Ended     Time   `json:"ended,omitzero" doc:"when it came to a final state"`
}

func orderOf(o store.Order) OrderStatus {
	return OrderStatus{
		CallBackID: o.CallBackID, TenantUserID: o.TenantUserID, Address: o.Details.Address, ChainName: o.Details.ChainName,
		Symbol: o.Details.Symbol, Amount: o.Details.Amount, ExpiresAt: timeOf(o.Expires), Labels: o.Labels,
		State: string(o.State), Reason: o.Reason, DecidedBy: o.DecidedBy, Waiting: int(o.Waiting), TxID: o.TxID,
		Created: timeOf(o.Created), Updated: timeOf(o.Updated), Confirmed: timeOf(o.Confirmed), Ended: timeOf(o.Ended),
	}
}

// The bounds of labels.
const (
	maxLabels     = 32
	maxLabelName  = 64
	maxLabelValue = 200
)

// check says what is wrong with the members of n that a schema cannot judge.
func (n NewOrder) check() error {
	var faults jsonapi.Faults
	if !n.Amount.IsPositive() {
		faults.Add("body.amount", "is not above 0")
	}
	if len(n.Labels) > maxLabels {
		faults.Add("body.labels", fmt.Sprintf("has more than %d members", maxLabels))
	}
	for name, value := range n.Labels {
		problem := ""
		switch {
		case name == "" || len(name) > maxLabelName || strings.IndexByte(name, 0) >= 0:
			problem = fmt.Sprintf("has a member without a name of 1 to %d bytes", maxLabelName)
		case len(value) > maxLabelValue:
			problem = fmt.Sprintf("has a member longer than %d bytes", maxLabelValue)
		}
		if problem != "" {
			faults.Add("body.labels", problem)
			break
		}
	}
	return faults.Err()
}

func (n NewOrder) stored() store.NewOrder {
	s := store.NewOrder{CallBackID: n.CallBackID, TenantUserID: n.TenantUserID, Labels: n.Labels, Expires: store.Never,
		Details: countersign.Details{Address: n.Address, ChainName: n.ChainName, Symbol: n.Symbol, Amount: n.Amount}}
	if n.ExpiresAt != 0 {
		s.Expires = store.Millis(n.ExpiresAt)
	}
	return s
}

// AddedOrder answers a new order.
type AddedOrder struct {
	OrderStatus
	Duplicate bool `json:"duplicate" doc:"it was there already, with the same content"`
}

// OrderPage is a page of orders, the newest first.
type OrderPage struct {
	Orders []OrderStatus `json:"orders" nullable:"false"`
	Next   *string       `json:"next" doc:"cursor of the page after; null: none"`
}

// Decide says why a person decided as they did.
type Decide struct {
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// DepositEntry is one entry of the feed of deposits.
type DepositEntry struct {
	Seq               int64              `json:"seq" minimum:"1" doc:"without gaps"`
	TrackingID        string             `json:"trackingId"`
	TenantUserID      string             `json:"tenantUserId"`
	TxID              string             `json:"txId"`
	ChainName         string             `json:"chainName"`
	Symbol            string             `json:"symbol"`
	Amount            countersign.Amount `json:"amount"`
	FromAddress       string             `json:"fromAddress"`
	ToAddress         string             `json:"toAddress" doc:"the deposit address"`
	RiskLevelFrom     *int64             `json:"riskLevelFrom,omitempty" doc:"0 to 100; absent where the service left it out"`
	RiskLevelTo       *int64             `json:"riskLevelTo,omitempty" doc:"0 to 100; absent where the service left it out"`
	TxIndex           int64              `json:"txIndex" doc:"-1: none"`
	Business          int64              `json:"business"`
	PossibleDuplicate bool               `json:"possibleDuplicate" doc:"the same transfer had been taken before under another trackingId"`
	State             string             `json:"state" enum:"taken,held,credited,rejected" doc:"taken and credited count; held awaits a decision and must not be credited; rejected does not count"`
	Taken             Time               `json:"taken"`
	Decided           Time               `json:"decided,omitzero"`
	DecidedBy         string             `json:"decidedBy,omitempty"`
	Reason            string             `json:"reason,omitempty"`
}

func depositOf(d store.TakenDeposit) DepositEntry {
	c := d.Deposit
	return DepositEntry{
		Seq: d.Seq, TrackingID: c.TrackingID, TenantUserID: c.TenantUserID, TxID: c.TxID, ChainName: c.ChainName, Symbol: c.Symbol,
		Amount: c.Amount, FromAddress: c.FromAddress, ToAddress: c.ToAddress, RiskLevelFrom: knownRisk(c.RiskLevelFrom),
		RiskLevelTo: knownRisk(c.RiskLevelTo), TxIndex: c.TxIndex, Business: c.Business, PossibleDuplicate: d.PossibleDuplicate(),
		State: string(d.State), Taken: timeOf(d.Taken), Decided: timeOf(d.Decided), DecidedBy: d.DecidedBy, Reason: d.Reason,
	}
}

func knownRisk(level int64) *int64 {
	if level == countersign.RiskUnknown {
		return nil
	}
	return &level
}

// Deposits is a part of the feed of deposits.
type Deposits struct {
	Deposits []DepositEntry `json:"deposits" nullable:"false"`
	Next     int64          `json:"next" doc:"the after of the next request"`
}

// EventEntry is one entry of the feed of events: what happened to an order, to
// an address, or to a held deposit. Which members are there depends on kind.
type EventEntry struct {
	Seq          int64               `json:"seq" minimum:"1" doc:"without gaps"`
	Kind         string              `json:"kind" doc:"such as order.confirmed, address.changed or deposit.credited"`
	At           Time                `json:"at"`
	CallBackID   string              `json:"callBackId,omitempty" doc:"of the order"`
	Deposit      int64               `json:"deposit,omitempty" doc:"seq in the feed of deposits"`
	TenantUserID string              `json:"tenantUserId"`
	State        string              `json:"state,omitempty" doc:"of the order or deposit, from then on"`
	Address      string              `json:"address,omitempty" doc:"target, deposit address, or the new deposit address"`
	OldAddress   string              `json:"oldAddress,omitempty" doc:"deposit address that was replaced"`
	ChainName    string              `json:"chainName,omitempty"`
	Symbol       string              `json:"symbol,omitempty"`
	Amount       *countersign.Amount `json:"amount,omitempty"`
	TxID         string              `json:"txId,omitempty"`
	Reason       string              `json:"reason,omitempty"`
	DecidedBy    string              `json:"decidedBy,omitempty"`
}

func eventOf(e store.Event) EventEntry {
	out := EventEntry{
		Seq: e.Seq, Kind: e.Kind, At: timeOf(e.At), CallBackID: e.CallBackID, Deposit: e.Deposit, TenantUserID: e.TenantUserID,
		State: e.State, Address: e.Details.Address, OldAddress: e.OldAddress, ChainName: e.Details.ChainName, Symbol: e.Details.Symbol,
		TxID: e.TxID, Reason: e.Reason, DecidedBy: e.DecidedBy,
	}
	if e.Details.Amount.IsSet() {
		out.Amount = &e.Details.Amount
	}
	return out
}

// Events is a part of the feed of events.
type Events struct {
	Events []EventEntry `json:"events" nullable:"false"`
	Next   int64        `json:"next" doc:"the after of the next request"`
}

// CursorMove acknowledges feeds. A cursor never goes back.
type CursorMove struct {
	Deposits int64 `json:"deposits,omitempty" minimum:"0" doc:"up to this seq; absent: no change"`
	Events   int64 `json:"events,omitempty" minimum:"0" doc:"up to this seq; absent: no change"`
}

// CursorStatus is how far a named reader has acknowledged the feeds.
type CursorStatus struct {
	Name     string `json:"name"`
	Deposits int64  `json:"deposits"`
	Events   int64  `json:"events"`
	Updated  Time   `json:"updated,omitzero"`
}

func cursorOf(c store.Cursor) CursorStatus {
	return CursorStatus{Name: c.Name, Deposits: c.Deposits, Events: c.Events, Updated: timeOf(c.Updated)}
}

// CallbackEntry is a callback as the inbox has it.
type CallbackEntry struct {
	Seq               int64  `json:"seq" minimum:"1"`
	Type              int    `json:"type" minimum:"1" maximum:"7"`
	ID                string `json:"id" doc:"trackingId; callBackId for type 2"`
	TenantUserID      string `json:"tenantUserId"`
	CallBackID        string `json:"callBackId,omitempty"`
	PossibleDuplicate bool   `json:"possibleDuplicate"`
	Settled           bool   `json:"settled" doc:"its outcome is kept for ever"`
	ErrCode           *int64 `json:"errCode,omitempty" doc:"what the service is told, once settled"`
	Message           string `json:"message,omitempty"`
	Created           Time   `json:"created"`
	Ended             Time   `json:"ended,omitzero" doc:"when it was settled"`
}

func callbackOf(r store.InboxRecord) CallbackEntry {
	e := CallbackEntry{Seq: r.Seq, Type: int(r.Type), ID: r.ID, TenantUserID: r.TenantUserID, CallBackID: r.CallBackID,
		PossibleDuplicate: r.PossibleDuplicate, Settled: r.Settled, Message: r.Outcome.Message, Created: timeOf(r.Created), Ended: timeOf(r.Ended)}
	if r.Settled {
		code := int64(r.Outcome.Code)
		e.ErrCode = &code
	}
	return e
}

// CallbackPage is a page of the inbox, the newest first.
type CallbackPage struct {
	Callbacks []CallbackEntry `json:"callbacks" nullable:"false"`
	Next      *string         `json:"next" doc:"cursor of the page after; null: none"`
}

// AlarmEntry is something a person should look at.
type AlarmEntry struct {
	Seq     int64  `json:"seq" minimum:"1"`
	Kind    string `json:"kind" doc:"fixed word, such as executed_differs or possible_duplicate"`
	Subject string `json:"subject" doc:"callBackId or trackingId"`
	At      Time   `json:"at"`
}

// AlarmList is a part of the feed of alarms.
type AlarmList struct {
	Alarms []AlarmEntry `json:"alarms" nullable:"false"`
	Next   int64        `json:"next" doc:"the after of the next request"`
}

// Stats counts what the gateway holds.
type Stats struct {
	Callbacks     int64            `json:"callbacks" doc:"ever recorded"`
	CallbacksOpen int64            `json:"callbacksOpen" doc:"of those, without a final answer"`
	Deposits      int64            `json:"deposits"`
	DepositsHeld  int64            `json:"depositsHeld" doc:"await a decision"`
	Events        int64            `json:"events"`
	Orders        map[string]int64 `json:"orders" doc:"by state"`
	Forwards      int64            `json:"forwards" doc:"entries that the application has still to be told"`
	ForwardOldest Time             `json:"forwardOldest,omitzero" doc:"since when the oldest of them waits"`
}

// NewToken is a token to be made.
type NewToken struct {
	Name string `json:"name" minLength:"1" maxLength:"200" doc:"whose it is"`
	Role string `json:"role" enum:"viewer,app,operator" doc:"viewer reads; app adds and cancels orders and acknowledges feeds; operator does all"`
}

// TokenEntry is a token without its secret.
type TokenEntry struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Created Time   `json:"created"`
	Revoked Time   `json:"revoked,omitzero"`
}

// CreatedToken is a new token with its secret, which is not shown again.
type CreatedToken struct {
	TokenEntry
	Token Secret `json:"token"`
}

// TokenList lists tokens, revoked ones too.
type TokenList struct {
	Tokens []TokenEntry `json:"tokens" nullable:"false"`
}

// Forwarded is the body of what is posted to the merchant's application.
type forwarded struct {
	Type      string `json:"type"`
	Timestamp Time   `json:"timestamp"`
	Data      any    `json:"data"`
}

// forwardBody gives the identifier and the body that tell of f. The identifier
// is the same in every attempt.
func forwardBody(f store.Forward) (id string, body []byte, err error) {
	m := forwarded{Type: "deposit." + string(f.Deposit.State), Timestamp: timeOf(f.Deposit.Taken), Data: depositOf(f.Deposit)}
	id = fmt.Sprintf("deposit_%d", f.Seq)
	if f.Feed == store.FeedEvents {
		m = forwarded{Type: f.Event.Kind, Timestamp: timeOf(f.Event.At), Data: eventOf(f.Event)}
		id = fmt.Sprintf("event_%d", f.Seq)
	}
	var b bytes.Buffer
	err = jsonapi.EncodeJSON(&b, m)
	return id, b.Bytes(), err
}
