package client

import (
	"countersign"
)

// Effect is what a policy says of an order.
type Effect string

// The effects, the strictest first.
const (
	EffectDeny  Effect = "deny"  // refused for good
	EffectAsk   Effect = "ask"   // a person decides
	EffectAllow Effect = "allow" // confirmed
)

var _ = plainWords(EffectDeny, EffectAsk, EffectAllow)

// PolicyInForce is the policy that the gateway decides by.
type PolicyInForce struct {
	Source       string      `json:"source,omitempty" doc:"the policy file; absent: there is none, and exact orders are confirmed"`
	Summary      string      `json:"summary" doc:"what it holds, in one line for people"`
	Table        []PolicyRow `json:"table" nullable:"false" doc:"what it holds, in words: rules in their order, the default, and limits"`
	SelfApproval bool        `json:"selfApproval" doc:"whether the token that ordered a withdrawal may approve it"`
	MayAsk       bool        `json:"mayAsk" doc:"whether an order can await a person"`
}

// PolicyRow is a rule, the default or a limit of a policy, in words.
type PolicyRow struct {
	Kind   string `json:"kind" enum:"rule,default,limit" doc:"rule, default or limit"`
	Name   string `json:"name,omitempty" doc:"its name in the policy file"`
	When   string `json:"when" doc:"the orders that it is about"`
	Then   string `json:"then" doc:"what it does with them"`
	Reason string `json:"reason,omitempty" doc:"the reason that it gives"`
}

// TryOrder is an order that need not exist.
type TryOrder struct {
	TenantUserID string             `json:"tenantUserId" minLength:"1" maxLength:"200" doc:"the user whose withdrawal it is, 1 to 200 characters"`
	Address      string             `json:"address" minLength:"1" maxLength:"200" doc:"target, 1 to 200 characters"`
	ChainName    string             `json:"chainName" minLength:"1" maxLength:"64" doc:"the chain, 1 to 64 characters"`
	Symbol       string             `json:"symbol" minLength:"1" maxLength:"64" doc:"the currency, 1 to 64 characters"`
	Amount       countersign.Amount `json:"amount,omitzero" required:"true" doc:"in units of the currency: an exact decimal above 0 of at most 78 digits"`
	ExpiresAt    Time               `json:"expiresAt,omitzero" doc:"it is not confirmed at this time or later; absent: it does not expire"`
	Labels       map[string]string  `json:"labels,omitempty" doc:"texts for the policy's conditions: at most 32, names of 1 to 64 bytes, values of at most 200 bytes"`
	At           Time               `json:"at,omitzero" doc:"when the service would ask; absent: now. Sums of limits are those of now"`
}

// Ruling is what the policy says of an order.
type Ruling struct {
	Effect    Effect       `json:"effect" doc:"deny: refused for good; ask: a person decides; allow: confirmed"`
	Approvals int          `json:"approvals,omitempty" doc:"of ask: how many persons must approve it; absent: nobody has to"`
	Rule      string       `json:"rule,omitempty" doc:"name of the rule or limit that decides; absent: none does"`
	Reason    string       `json:"reason,omitempty" doc:"why, for people"`
	Steps     []PolicyStep `json:"steps" nullable:"false" doc:"every rule and limit that was looked at, in order"`
	At        Time         `json:"at" doc:"the time that the policy was given"`
}

// PolicyStep is the result of one rule or limit.
type PolicyStep struct {
	Kind  string             `json:"kind" enum:"rule,limit" doc:"rule or limit"`
	Name  string             `json:"name" doc:"its name in the policy file"`
	Came  string             `json:"came" doc:"what it came to, for people"`
	Max   countersign.Amount `json:"max,omitzero" doc:"ceiling of a limit, in units of its currency; absent: no limit, or one that was not compared"`
	Spent countersign.Amount `json:"spent,omitzero" doc:"what was confirmed before in the limit's window, in units of its currency; absent: nothing"`
}

// OrderRuling is what the policy says now of an order of the book.
type OrderRuling struct {
	Ruling
	Asked Time `json:"asked,omitzero" doc:"when the service first asked; absent: it has not"`
}
