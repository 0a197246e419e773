package client

import (
	"context"
	"encoding/json"
	"net/http"

	"countersign"
)

// DepositState says whether a deposit counts.
type DepositState string

// The states of a deposit: taken, or held → credited | rejected.
const (
	DepositTaken    DepositState = "taken"
	DepositHeld     DepositState = "held"
	DepositCredited DepositState = "credited"
	DepositRejected DepositState = "rejected"
)

var _ = newWords(words[DepositState]{
	{is: DepositTaken, means: "It counts."},
	{is: DepositHeld, means: "It may be a duplicate, or is suspect. It awaits a person's decision and must not be credited."},
	{is: DepositCredited, means: "It was held, and counts."},
	{is: DepositRejected, means: "It was held, and does not count."},
})

// DepositEntry is one entry of the gateway's feed of deposits.
type DepositEntry struct {
	Seq               int64              `json:"seq" minimum:"1" doc:"number in the feed of deposits, without gaps"`
	TrackingID        string             `json:"trackingId" doc:"the service's id of the deposit"`
	TenantUserID      string             `json:"tenantUserId" doc:"the user in the merchant's system"`
	TxID              string             `json:"txId" doc:"transaction on the chain"`
	ChainName         string             `json:"chainName" doc:"the chain"`
	Symbol            string             `json:"symbol" doc:"the currency"`
	Amount            countersign.Amount `json:"amount" doc:"in units of the currency: an exact decimal, as the service wrote it; one that came with an exponent is converted, without loss"`
	FromAddress       string             `json:"fromAddress" doc:"sender; may be empty"`
	ToAddress         string             `json:"toAddress" doc:"the user's deposit address"`
	RiskLevelFrom     *int64             `json:"riskLevelFrom,omitempty" doc:"risk of the sender, 0 to 100; absent if the service did not send it"`
	RiskLevelTo       *int64             `json:"riskLevelTo,omitempty" doc:"risk of the receiver, 0 to 100; absent if the service did not send it"`
	TxIndex           int64              `json:"txIndex" doc:"number of the transfer in its transaction, from 0; -1: not given"`
	Business          int64              `json:"business" doc:"member business of the callback"`
	PossibleDuplicate bool               `json:"possibleDuplicate" doc:"an earlier deposit under another trackingId names the same transfer"`
	Suspect           bool               `json:"suspect,omitempty" doc:"it was held because its sealed blocks belong to another request: it may be joined from several. Ask the service before you credit it"`
	State             DepositState       `json:"state" doc:"taken and credited count; held awaits a decision and must not be credited; rejected does not count. The feed without a state, and forwarded messages, say taken or held for ever: the decision is an event"`
	Taken             Time               `json:"taken" doc:"when it was taken"`
	Decided           Time               `json:"decided,omitzero" doc:"when a held deposit was credited or rejected; absent where state is held"`
	DecidedBy         string             `json:"decidedBy,omitempty" doc:"id of the token that credited or rejected it"`
	Reason            string             `json:"reason,omitempty" doc:"why it was credited or rejected"`

	AsSent map[string]json.RawMessage `json:"asSent,omitempty" doc:"members of the callback, as the service sent them, that the other members here do not show so: those without a meaning here, and those that came in another form, such as an amount with an exponent; absent: none"`
}

// DepositMessage is the type of a forwarded message about a deposit.
type DepositMessage string

// The types of messages about deposits.
const (
	MessageDepositTaken DepositMessage = "deposit.taken" // it counts
	MessageDepositHeld  DepositMessage = "deposit.held"  // it must not be credited before the event deposit.credited
)

var _ = plainWords(MessageDepositTaken, MessageDepositHeld)

// ForwardedDeposit is the body of the message about a deposit that is posted to the
// merchant's application. docs/merchant/README.md describes its headers and what to do with it.
type ForwardedDeposit struct {
	Type      DepositMessage `json:"type" doc:"deposit.taken counts; deposit.held must not be credited before the event deposit.credited"`
	Timestamp Time           `json:"timestamp" doc:"when the deposit was taken"`
	Data      DepositEntry   `json:"data" doc:"the deposit as it was when it was taken"`
}

// QuestionMessage is the type of a question about a deposit.
type QuestionMessage string

// MessageDepositVerify asks whether a deposit is true.
const MessageDepositVerify QuestionMessage = "deposit.verify"

var _ = plainWords(MessageDepositVerify)

// DepositQuestion is the body of the question that a gateway asks at --verify-url before
// a deposit counts. docs/merchant/verify.md describes its headers and the answer.
type DepositQuestion struct {
	Type QuestionMessage `json:"type" doc:"deposit.verify"`
	Data DepositToVerify `json:"data" doc:"the deposit as the service tells it"`
}

// DepositToVerify is a deposit that is not taken yet.
type DepositToVerify struct {
	TrackingID   string             `json:"trackingId" doc:"the service's id of the deposit"`
	TenantUserID string             `json:"tenantUserId" doc:"the user in the merchant's system"`
	TxID         string             `json:"txId" doc:"transaction on the chain"`
	ChainName    string             `json:"chainName" doc:"the chain"`
	Symbol       string             `json:"symbol" doc:"the currency"`
	Amount       countersign.Amount `json:"amount" doc:"in units of the currency: an exact decimal"`
	FromAddress  string             `json:"fromAddress" doc:"sender; may be empty"`
	ToAddress    string             `json:"toAddress" doc:"the user's deposit address"`
	TxIndex      int64              `json:"txIndex" doc:"number of the transfer in its transaction, from 0; -1: not given"`
}

// ForwardedEvent is the body of the message about an event that is posted to the
// merchant's application.
type ForwardedEvent struct {
	Type      EventKind  `json:"type" doc:"what happened"`
	Timestamp Time       `json:"timestamp" doc:"when it happened"`
	Data      EventEntry `json:"data" doc:"the entry of the feed of events"`
}

// EventEntry is one entry of the gateway's feed of events: what happened to an
// order, to an address, or to a held deposit. The kind determines which members are
// set.
type EventEntry struct {
	Seq          int64              `json:"seq" minimum:"1" doc:"number in the feed of events, without gaps"`
	Kind         EventKind          `json:"kind" doc:"what happened"`
	At           Time               `json:"at" doc:"when it happened"`
	CallBackID   string             `json:"callBackId,omitempty" doc:"of the order"`
	Deposit      int64              `json:"deposit,omitempty" doc:"seq in the feed of deposits"`
	TenantUserID string             `json:"tenantUserId" doc:"the user in the merchant's system"`
	State        string             `json:"state,omitempty" doc:"the new state of the order, deposit or address"`
	Address      string             `json:"address,omitempty" doc:"target of the order, address of the deposit, or the user's new deposit address"`
	OldAddress   string             `json:"oldAddress,omitempty" doc:"deposit address that was replaced"`
	ChainName    string             `json:"chainName,omitempty" doc:"the chain"`
	Symbol       string             `json:"symbol,omitempty" doc:"the currency"`
	Amount       countersign.Amount `json:"amount,omitzero" doc:"in units of the currency: an exact decimal"`
	TxID         string             `json:"txId,omitempty" doc:"transaction on the chain"`
	Reason       string             `json:"reason,omitempty" doc:"why it happened"`
	DecidedBy    string             `json:"decidedBy,omitempty" doc:"id of the token that decided; policy or countersign if no person did"`
}

// CursorMove acknowledges feeds. A cursor never goes back.
type CursorMove struct {
	Deposits int64 `json:"deposits,omitempty" minimum:"0" doc:"the feed of deposits up to this seq; absent: no change"`
	Events   int64 `json:"events,omitempty" minimum:"0" doc:"the feed of events up to this seq; absent: no change"`
}

// Cursor holds the last numbers that a named reader has acknowledged.
type Cursor struct {
	Name     string `json:"name" doc:"name of the reader, at most 100 bytes"`
	Deposits int64  `json:"deposits" doc:"seq of the last acknowledged deposit; 0: none"`
	Events   int64  `json:"events" doc:"seq of the last acknowledged event; 0: none"`
	Updated  Time   `json:"updated,omitzero" doc:"when it last moved; absent: never"`
}

// Deposits returns a part of the feed of deposits. Each deposit is as it was when it
// was taken, so every reader finds the same; what is decided about a held one is an
// event. Deposit returns the present state of one.
func (g *Gateway) Deposits(ctx context.Context, o FeedOptions) (Feed[DepositEntry], error) {
	return Get[Feed[DepositEntry]](ctx, g, "/v1/deposits", o)
}

// Deposit returns one deposit by its number in the feed.
func (g *Gateway) Deposit(ctx context.Context, seq int64) (DepositEntry, error) {
	return Get[DepositEntry](ctx, g, Path("deposits", seq))
}

// DepositSearch selects deposits. Empty members select all.
type DepositSearch struct {
	TrackingID   string       `json:"trackingId,omitempty" query:"trackingId" maxLength:"1024" doc:"only this deposit"`
	TxID         string       `json:"txId,omitempty" query:"txId" maxLength:"1024" doc:"only of this transaction, as the service wrote it"`
	TenantUserID string       `json:"tenantUserId,omitempty" query:"tenantUserId" maxLength:"1024" doc:"only of this user"`
	Address      string       `json:"address,omitempty" query:"address" maxLength:"1024" doc:"only to this address, as the service wrote it"`
	State        DepositState `json:"state,omitempty" query:"state" doc:"only in this state"`
	Since        Time         `json:"since,omitzero" query:"since" doc:"only taken at this time or later, in RFC 3339"`
	Until        Time         `json:"until,omitzero" query:"until" doc:"only taken before this time, in RFC 3339"`
}

// SearchDeposits returns a page of deposits as they are now, the newest first.
func (g *Gateway) SearchDeposits(ctx context.Context, f DepositSearch, o PageOptions) (List[DepositEntry], error) {
	return Get[List[DepositEntry]](ctx, g, "/v1/deposits/search", f, o)
}

// Events returns a part of the feed of events.
func (g *Gateway) Events(ctx context.Context, o FeedOptions) (Feed[EventEntry], error) {
	return Get[Feed[EventEntry]](ctx, g, "/v1/events", o)
}

// Cursor returns the last numbers that a reader has acknowledged; 0 for a reader that
// never did.
func (g *Gateway) Cursor(ctx context.Context, name string) (Cursor, error) {
	return Get[Cursor](ctx, g, Path("cursors", name))
}

// MoveCursor acknowledges the feeds up to the numbers in to. Lower numbers than
// before change nothing.
func (g *Gateway) MoveCursor(ctx context.Context, name string, to CursorMove) (Cursor, error) {
	return ask[Cursor](ctx, g, http.MethodPut, Path("cursors", name), to)
}
