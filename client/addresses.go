package client

import (
	"context"
)

// NewAddress says that the deposit address of a user was replaced.
type NewAddress struct {
	Merchant     string  `json:"merchant" minLength:"1" maxLength:"64" doc:"id of the merchant, 1 to 64 characters"`
	ChangeID     string  `json:"changeId" minLength:"1" maxLength:"200" doc:"identifies the change permanently, 1 to 200 characters: a request with the same changeId repeats the change"`
	TenantUserID string  `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user in the merchant's system, 1 to 200 characters"`
	NewAddress   string  `json:"newAddress" minLength:"1" maxLength:"200" doc:"the deposit address from now on, 1 to 200 characters"`
	ToAddress    string  `json:"toAddress,omitempty" minLength:"1" maxLength:"200" doc:"the address that was replaced, 1 to 200 characters; absent: not known"`
	ChainName    string  `json:"chainName,omitempty" minLength:"1" maxLength:"64" doc:"the chain of the address, 1 to 64 characters; absent: not known, which a merchant that reads strictly refuses" example:"TRON"`
	Symbol       string  `json:"symbol,omitempty" minLength:"1" maxLength:"64" doc:"the currency that is deposited there, 1 to 64 characters; absent: not known, which a merchant that reads strictly refuses" example:"USDT"`
	TrackingID   *string `json:"trackingId,omitempty" maxLength:"200" doc:"member trackingId of the callback, by which the merchant recognises a repetition, at most 200 characters; absent: changeId; empty: null, and the merchant takes each attempt for another change"`
	Business     int64   `json:"business,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" default:"0" doc:"member business of the callback, a whole number of at most 53 bits"`
}

// AddAddress reports to a merchant that the deposit address of a user was replaced. The same changeId
// with the same content returns the existing callback; with other content the error is ErrConflict.
func (s *Service) AddAddress(ctx context.Context, a NewAddress) (Accepted, error) {
	return first(Post[List[Accepted]](ctx, s, "/v1/addresses", []NewAddress{a}))
}

// AddressState says whether a user's deposit address counts.
type AddressState string

// The states of an address at the gateway.
const (
	AddressTaken    AddressState = "taken"
	AddressHeld     AddressState = "held"
	AddressAccepted AddressState = "accepted"
	AddressRejected AddressState = "rejected"
)

var _ = newWords(words[AddressState]{
	{is: AddressTaken, means: "It counts from the time it was reported."},
	{is: AddressHeld, means: "It replaces another one. It awaits a person's decision and must not be shown to the user."},
	{is: AddressAccepted, means: "It was held, and counts."},
	{is: AddressRejected, means: "It was held, and does not count."},
})

// AddressEntry is what the service reported of a user's deposit address.
type AddressEntry struct {
	Seq          int64        `json:"seq" minimum:"1" doc:"its number"`
	TenantUserID string       `json:"tenantUserId" doc:"the user in the merchant's system"`
	Address      string       `json:"address" doc:"the new deposit address"`
	OldAddress   string       `json:"oldAddress,omitempty" doc:"the address that it replaces, as the service says; absent: not known"`
	ChainName    string       `json:"chainName,omitempty" doc:"the chain; absent: not known"`
	Symbol       string       `json:"symbol,omitempty" doc:"the currency; absent: not known"`
	State        AddressState `json:"state" doc:"taken and accepted count; held awaits a decision; rejected does not count"`
	Taken        Time         `json:"taken" doc:"when the service reported it"`
	Decided      Time         `json:"decided,omitzero" doc:"when a person decided; absent: nobody did"`
	DecidedBy    string       `json:"decidedBy,omitempty" doc:"id of the token that decided"`
	Reason       string       `json:"reason,omitempty" doc:"the reason that was given"`
}

// AddressFilter selects addresses. Empty members select all.
type AddressFilter struct {
	State        AddressState `query:"state" doc:"only in this state"`
	TenantUserID string       `query:"tenantUserId" doc:"only of this user, at most 1,024 bytes"`
	Address      string       `query:"address" doc:"only this new address, at most 1,024 bytes"`
	OldAddress   string       `query:"oldAddress" doc:"only what replaces this address, at most 1,024 bytes"`
}

// Addresses returns a page of what the service reported of deposit addresses, the newest first.
func (g *Gateway) Addresses(ctx context.Context, f AddressFilter, o PageOptions) (List[AddressEntry], error) {
	return Get[List[AddressEntry]](ctx, g, "/v1/addresses", f, o)
}
