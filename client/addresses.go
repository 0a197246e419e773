package client

import (
	"context"
	"net/http"
)

// NewAddress says that the deposit address of a user was replaced.
type NewAddress struct {
	Merchant     string  `json:"merchant" minLength:"1" maxLength:"64" doc:"id of the merchant, 1 to 64 characters"`
	ChangeID     string  `json:"changeId" minLength:"1" maxLength:"200" doc:"identifies the change permanently, 1 to 200 characters: a request with the same changeId repeats the change"`
	TenantUserID string  `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user in the merchant's system, 1 to 200 characters"`
	NewAddress   string  `json:"newAddress" minLength:"1" maxLength:"200" doc:"the deposit address from now on, 1 to 200 characters"`
	ToAddress    string  `json:"toAddress,omitempty" minLength:"1" maxLength:"200" doc:"the address that was replaced, 1 to 200 characters; absent: not told"`
	ChainName    string  `json:"chainName,omitempty" minLength:"1" maxLength:"64" doc:"the chain of the address, 1 to 64 characters; absent: not told, which a merchant that reads strictly refuses" example:"TRON"`
	Symbol       string  `json:"symbol,omitempty" minLength:"1" maxLength:"64" doc:"the currency that is deposited there, 1 to 64 characters; absent: not told, which a merchant that reads strictly refuses" example:"USDT"`
	TrackingID   *string `json:"trackingId,omitempty" maxLength:"200" doc:"member trackingId of the callback, by which the merchant recognises a repetition, at most 200 characters; absent: changeId; empty: null, and the merchant takes each attempt for another change"`
	Business     int64   `json:"business,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" default:"0" doc:"member business of the callback, a whole number of at most 53 bits"`
}

// AcceptedAddress answers a change of address.
type AcceptedAddress struct {
	ID         string        `json:"id" doc:"id of the callback that tells the merchant"`
	ChangeID   string        `json:"changeId" doc:"as in the request"`
	TrackingID string        `json:"trackingId" doc:"member trackingId of the callback; empty: null"`
	State      CallbackState `json:"state" doc:"state of the callback"`
	Duplicate  bool          `json:"duplicate" doc:"it exists already, with the same content"`
}

// AddAddress tells a merchant that the deposit address of a user was replaced. The
// same changeId with the same content gives the existing callback; with other
// content the error is ErrConflict.
func (s *Service) AddAddress(ctx context.Context, a NewAddress) (AcceptedAddress, error) {
	return ask[AcceptedAddress](ctx, &s.caller, http.MethodPost, "/v1/addresses", a)
}
