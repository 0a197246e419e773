package admin

import (
	"encoding/json"
	"log/slog"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign"
	"countersign/internal/jsonapi"
)

// amountSchema stands for countersign.Amount in the document: a decimal in a
// string, or a JSON number, which is taken by its text (PROTOCOL.md, Amounts).
type amountSchema struct{}

func (amountSchema) Schema(huma.Registry) *huma.Schema {
	const digits = `^(0|[1-9][0-9]*)(\.[0-9]+)?$`
	return &huma.Schema{
		Description: "an exact decimal of at most 78 digits, without sign and exponent; kept as written",
		Examples:    []any{"2.500000"},
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Format: jsonapi.FormatDecimal, Pattern: digits},
			{Type: huma.TypeNumber, Format: jsonapi.FormatDecimal},
		},
	}
}

// NewDeposit is a deposit that the merchant is to be told of.
type NewDeposit struct {
	Merchant      string             `json:"merchant" minLength:"1" maxLength:"64"`
	TrackingID    string             `json:"trackingId" minLength:"1" maxLength:"200" doc:"the deposit, for ever: the same again is the same deposit"`
	TenantUserID  string             `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user, in the merchant's system"`
	TxID          string             `json:"txId" minLength:"1" maxLength:"200"`
	ChainName     string             `json:"chainName" minLength:"1" maxLength:"64" example:"TRON"`
	Symbol        string             `json:"symbol" minLength:"1" maxLength:"64" example:"USDT"`
	Amount        countersign.Amount `json:"amount"`
	FromAddress   string             `json:"fromAddress" maxLength:"200" doc:"may be empty, where the chain has none"`
	ToAddress     string             `json:"toAddress" minLength:"1" maxLength:"200" doc:"the user's deposit address"`
	RiskLevelFrom int64              `json:"riskLevelFrom" minimum:"0" maximum:"100"`
	RiskLevelTo   int64              `json:"riskLevelTo" minimum:"0" maximum:"100"`
	TxIndex       int64              `json:"txIndex" minimum:"-1" maximum:"9007199254740991" doc:"-1: none"`
	NewAddress    *string            `json:"newAddress,omitempty" maxLength:"200" doc:"default: toAddress"`
	Business      int64              `json:"business,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" default:"0"`
}

// depositsBody is one deposit or an array of them.
type depositsBody struct {
	list  []NewDeposit
	array bool
}

func (depositsBody) Schema(r huma.Registry) *huma.Schema {
	one := r.Schema(reflect.TypeFor[NewDeposit](), true, "")
	least, most := 1, maxBatch
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MinItems: &least, MaxItems: &most}}}
}

func (d *depositsBody) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		d.array = true
		return json.Unmarshal(b, &d.list)
	}
	d.list = make([]NewDeposit, 1)
	return json.Unmarshal(b, &d.list[0])
}

// Accepted says what became of one deposit.
type Accepted struct {
	ID         string `json:"id" doc:"of the callback that tells the merchant"`
	TrackingID string `json:"trackingId"`
	State      string `json:"state" enum:"pending,sending,accepted,refused,exhausted,cancelled"`
	Duplicate  bool   `json:"duplicate" doc:"it was there already, with the same content"`
}

// AcceptedDeposits answers a request of one deposit or an array, in its order.
type AcceptedDeposits struct {
	Callbacks []Accepted `json:"callbacks" nullable:"false"`
}

// AcceptedLine is one line of the answer to deposits sent as lines: what
// became of a line, or, as the last line, what is wrong with one.
type AcceptedLine struct {
	Line       int64    `json:"line" minimum:"1" doc:"number of the line in the request, from 1"`
	ID         string   `json:"id,omitempty"`
	TrackingID string   `json:"trackingId,omitempty"`
	State      string   `json:"state,omitempty" enum:"pending,sending,accepted,refused,exhausted,cancelled"`
	Duplicate  bool     `json:"duplicate,omitempty"`
	Error      *Problem `json:"error,omitempty" doc:"this line and all after it were not taken"`
}

// Details are what a withdrawal moves and where to.
type Details struct {
	Address   string             `json:"address" minLength:"1" maxLength:"200"`
	ChainName string             `json:"chainName" minLength:"1" maxLength:"64"`
	Symbol    string             `json:"symbol" minLength:"1" maxLength:"64"`
	Amount    countersign.Amount `json:"amount"`
}

func detailsOf(d *countersign.Details) *Details {
	if d == nil {
		return nil
	}
	return &Details{Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}
}

func (d *Details) protocol() *countersign.Details {
	if d == nil {
		return nil
	}
	return &countersign.Details{Address: d.Address, ChainName: d.ChainName, Symbol: d.Symbol, Amount: d.Amount}
}

// NewWithdrawal is a withdrawal whose confirmation is to be asked for.
type NewWithdrawal struct {
	Merchant      string   `json:"merchant" minLength:"1" maxLength:"64"`
	CallBackID    string   `json:"callBackId" minLength:"1" maxLength:"200" doc:"unique for the merchant: the same again is the same withdrawal"`
	TenantUserID  string   `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user, in the merchant's system"`
	TrackingID    string   `json:"trackingId,omitempty" minLength:"1" maxLength:"200" doc:"default: callBackId"`
	Business      int64    `json:"business,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" default:"0"`
	Details       *Details `json:"details,omitempty" doc:"what the merchant's answer must equal; absent: taken from the answer"`
	ConfirmWithin Duration `json:"confirmWithin,omitzero" doc:"10s to 168h; default: the merchant's"`
}

// Withdrawal is a withdrawal and what was decided of it.
type Withdrawal struct {
	ID           string   `json:"id"`
	Merchant     string   `json:"merchant"`
	CallBackID   string   `json:"callBackId"`
	Callback     string   `json:"callback" doc:"id of the callback that asks the merchant"`
	TenantUserID string   `json:"tenantUserId"`
	TrackingID   string   `json:"trackingId"`
	Business     int64    `json:"business"`
	Ordered      *Details `json:"ordered,omitempty" doc:"what the service was told"`
	Details      *Details `json:"details,omitempty" doc:"what was confirmed"`
	State        string   `json:"state" enum:"awaiting,confirmed,declined,expired,cancelled,released,executed,failed"`
	Decision     string   `json:"decision,omitempty" enum:"confirmed,declined,expired,cancelled"`
	Reason       string   `json:"reason,omitempty" doc:"of the decision"`
	Deadline     Time     `json:"deadline"`
	Created      Time     `json:"created"`
	Decided      Time     `json:"decided,omitzero"`
	Released     Time     `json:"released,omitzero"`
	Ended        Time     `json:"ended,omitzero" doc:"when it was executed or failed"`
	Claim        string   `json:"claim,omitempty" doc:"whom the permit was given to"`
	TxID         string   `json:"txId,omitempty" doc:"where executed"`
	FailReason   string   `json:"failReason,omitempty" doc:"where failed"`
}

// AcceptedWithdrawal answers a new withdrawal or its outcome.
type AcceptedWithdrawal struct {
	Withdrawal
	Duplicate bool `json:"duplicate" doc:"it was there already, with the same content"`
}

// WithdrawalPage is a page of withdrawals, the newest first.
type WithdrawalPage struct {
	Withdrawals []Withdrawal `json:"withdrawals" nullable:"false"`
	Next        *string      `json:"next" doc:"cursor of the page after; null: none"`
}

// Claim names the one that will execute.
type Claim struct {
	Claim string `json:"claim" minLength:"1" maxLength:"200" doc:"the same claim again gets the same permit; any other is refused for ever"`
}

// Permit is the one leave to execute a confirmed withdrawal.
type Permit struct {
	Permit     Secret     `json:"permit"`
	Details    Details    `json:"details" doc:"what was confirmed: execute this and nothing else"`
	Withdrawal Withdrawal `json:"withdrawal"`
}

// LogValue keeps the permit out of a log.
func (p Permit) LogValue() slog.Value { return slog.StringValue("permit for " + p.Withdrawal.ID) }

// Outcome says how a released withdrawal ended: exactly one of Executed and
// Failed is set.
type Outcome struct {
	Permit   Secret    `json:"permit" minLength:"1" maxLength:"200"`
	Executed *Executed `json:"executed,omitempty" doc:"queues a type 3 callback; not with failed"`
	Failed   *Failed   `json:"failed,omitempty" doc:"queues a type 5 callback; not with executed"`
}

// LogValue keeps the permit out of a log.
func (o Outcome) LogValue() slog.Value { return slog.StringValue("outcome") }

// Executed names the transaction that moved the funds.
type Executed struct {
	TxID        string `json:"txId" minLength:"1" maxLength:"200"`
	FromAddress string `json:"fromAddress,omitempty" minLength:"1" maxLength:"200" doc:"where the funds came from"`
}

// Failed says why nothing moved.
type Failed struct {
	Reason string `json:"reason" minLength:"1" maxLength:"200"`
}

// Decision is one entry of the decision feed.
type Decision struct {
	Seq        int64      `json:"seq" minimum:"1" doc:"without gaps"`
	Withdrawal Withdrawal `json:"withdrawal"`
}

// Decisions is a part of the decision feed.
type Decisions struct {
	Decisions []Decision `json:"decisions" nullable:"false"`
	Next      int64      `json:"next" doc:"the after of the next request"`
}
