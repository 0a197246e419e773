package client

import (
	"context"

	"countersign"
)

// NewDeposit is a deposit to report to the merchant.
type NewDeposit struct {
	Merchant      string             `json:"merchant" minLength:"1" maxLength:"64" doc:"id of the merchant, 1 to 64 characters"`
	TrackingID    string             `json:"trackingId" minLength:"1" maxLength:"200" doc:"identifies the deposit permanently, 1 to 200 characters: a request with the same trackingId repeats the deposit"`
	TenantUserID  string             `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user in the merchant's system, 1 to 200 characters"`
	TxID          string             `json:"txId" minLength:"1" maxLength:"200" doc:"transaction on the chain, 1 to 200 characters"`
	ChainName     string             `json:"chainName" minLength:"1" maxLength:"64" doc:"the chain, 1 to 64 characters" example:"TRON"`
	Symbol        string             `json:"symbol" minLength:"1" maxLength:"64" doc:"the currency, 1 to 64 characters" example:"USDT"`
	Amount        countersign.Amount `json:"amount" doc:"in units of the currency: an exact decimal of at most 78 digits, without sign and exponent; kept as written"`
	FromAddress   string             `json:"fromAddress" maxLength:"200" doc:"sender, at most 200 characters; empty if the chain has none"`
	ToAddress     string             `json:"toAddress" minLength:"1" maxLength:"200" doc:"the user's deposit address, 1 to 200 characters"`
	RiskLevelFrom int64              `json:"riskLevelFrom" minimum:"0" maximum:"100" doc:"risk of the sender, 0 to 100"`
	RiskLevelTo   int64              `json:"riskLevelTo" minimum:"0" maximum:"100" doc:"risk of the receiver, 0 to 100"`
	TxIndex       int64              `json:"txIndex" minimum:"-1" maximum:"9007199254740991" doc:"number of the transfer in its transaction, 0 to 9007199254740991; -1: not given"`
	NewAddress    *string            `json:"newAddress,omitempty" maxLength:"200" doc:"member newAddress of the callback, at most 200 characters; absent: toAddress"`
	Business      int64              `json:"business,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" default:"0" doc:"member business of the callback, a whole number of at most 53 bits"`
}

// Accepted answers one deposit, or one change of an address.
type Accepted struct {
	ID         string        `json:"id" doc:"id of the callback that tells the merchant"`
	TrackingID string        `json:"trackingId" doc:"member trackingId of the callback; empty: null"`
	State      CallbackState `json:"state" doc:"state of the callback"`
	Duplicate  bool          `json:"duplicate" doc:"it exists already, with the same content"`
}

// TestSymbol is the symbol and the chain of a test deposit, whose amount is 0.
const TestSymbol = "TEST"

// AddDeposits reports 1 to 1,000 deposits to their merchants, all or nothing.
func (s *Service) AddDeposits(ctx context.Context, list ...NewDeposit) ([]Accepted, error) {
	if list == nil {
		list = []NewDeposit{}
	}
	out, err := Post[List[Accepted]](ctx, s, "/v1/deposits", list)
	return out.Items, err
}

// SentDeposit is a deposit at the service, with what became of sending it.
type SentDeposit struct {
	ID         string             `json:"id" doc:"the service's id of the callback that tells of it; begins with the merchant's id"`
	Merchant   string             `json:"merchant" doc:"id of the merchant"`
	TrackingID string             `json:"trackingId" doc:"the service's id of the deposit"`
	Symbol     string             `json:"symbol" doc:"the currency"`
	Amount     countersign.Amount `json:"amount" doc:"in units of the currency: an exact decimal"`
	State      CallbackState      `json:"state" doc:"state of that callback"`
	Repeated   bool               `json:"repeated,omitempty" doc:"the merchant had accepted it, and it is sent once more"`
}

// DepositFilter selects deposits. Empty members select all.
type DepositFilter struct {
	Merchant string `query:"merchant" minLength:"1" maxLength:"64" doc:"only of this merchant, 1 to 64 characters"`
}

// Deposits returns a page of deposits, the newest first.
func (s *Service) Deposits(ctx context.Context, f DepositFilter, o PageOptions) (List[SentDeposit], error) {
	return Get[List[SentDeposit]](ctx, s, "/v1/deposits", f, o)
}
