package client

import (
	"context"
	"log/slog"
	"net/http"
)

// ChangeKind is what a change is about.
type ChangeKind string

// The kinds of changes.
const (
	ChangeMerchant ChangeKind = "merchant"
	ChangeRotation ChangeKind = "rotation"
	ChangeToken    ChangeKind = "token"
	ChangeRevoke   ChangeKind = "revoke"
)

var changeKinds = words[ChangeKind]{
	{is: ChangeMerchant, means: "Settings of a merchant."},
	{is: ChangeRotation, means: "A step of the replacement of a merchant's keys."},
	{is: ChangeToken, means: "A new token."},
	{is: ChangeRevoke, means: "The end of an approver's token."},
}

// Values returns every kind.
func (ChangeKind) Values() []ChangeKind { return changeKinds.values() }

// Means returns what s means, for people, or "" for an unknown word.
func (s ChangeKind) Means() string { return changeKinds.of(s).means }

// ChangeState is the state of a change.
type ChangeState string

// The states of a change: waiting → approved → applied; waiting or approved → rejected
// or stale. Without a delay, or without an approver, it is applied at once.
const (
	ChangeWaiting  ChangeState = "waiting"
	ChangeApproved ChangeState = "approved"
	ChangeApplied  ChangeState = "applied"
	ChangeRejected ChangeState = "rejected"
	ChangeStale    ChangeState = "stale"
)

var changeStates = words[ChangeState]{
	{is: ChangeWaiting, means: "It waits for approvers."},
	{is: ChangeApproved, means: "It takes effect at its time."},
	{is: ChangeApplied, means: "It has taken effect."},
	{is: ChangeRejected, means: "A person rejected it."},
	{is: ChangeStale, means: "What it would change was changed otherwise, or its proposer's token was revoked."},
}

// Values returns every state.
func (ChangeState) Values() []ChangeState { return changeStates.values() }

// Means returns what s means, for people, or "" for an unknown word.
func (s ChangeState) Means() string { return changeStates.of(s).means }

// ChangeEntry is something that could move money or who decides on it. Where there is an
// approver's token, it waits for an approver other than the proposer.
type ChangeEntry struct {
	ID          string            `json:"id" doc:"identifies the change; ids sort by time"`
	Kind        ChangeKind        `json:"kind" doc:"what is changed"`
	Merchant    string            `json:"merchant,omitempty" doc:"id of the merchant that is changed"`
	Token       string            `json:"token,omitempty" doc:"id of the token that is made or revoked"`
	State       ChangeState       `json:"state" doc:"its state"`
	Before      map[string]string `json:"before" doc:"the members that change, as they were; of secrets and keys the fingerprints"`
	After       map[string]string `json:"after" doc:"the same members as they would be"`
	ProposedBy  string            `json:"proposedBy" doc:"id of the token that proposed it"`
	Proposed    Time              `json:"proposed" doc:"when it was proposed"`
	DecidedBy   string            `json:"decidedBy,omitempty" doc:"id of the token that approved or rejected it; absent: nobody had to, or has yet"`
	Decided     Time              `json:"decided,omitzero" doc:"when it was approved or rejected, or found stale"`
	Reason      string            `json:"reason,omitempty" doc:"why it was rejected or is stale"`
	Stale       string            `json:"stale,omitempty" doc:"only of one that waits or is approved: why it can no longer be applied, such as a change that was applied meanwhile; absent: it can, or it is of a list"`
	TakesEffect Time              `json:"takesEffect,omitzero" doc:"when it takes or took effect; absent: it is not approved"`
}

// Proposed answers a call whose change waits for an approver. Nothing has changed yet.
type Proposed struct {
	Change            ChangeEntry `json:"change" doc:"the change that waits"`
	Secret            Secret      `json:"token,omitempty" doc:"the secret of the token that would be made, shown only once; it is not valid before the change is applied"`
	PublicKey         string      `json:"publicKey,omitempty" doc:"the key with which the merchant would open requests: Base64 SubjectPublicKeyInfo of the request pair. Shown only once"`
	ResponsePublicKey string      `json:"responsePublicKey,omitempty" doc:"the key with which the merchant would seal answers: Base64 SubjectPublicKeyInfo of the response pair. Shown only once"`
	APIKey            Secret      `json:"apiKey,omitempty" doc:"the API key that the merchant's responses would carry, where the service made it. Shown only once"`
	CallbackAPIKey    Secret      `json:"callbackApiKey,omitempty" doc:"the X-API-KEY that requests would carry, where the service made it. Shown only once"`
	Warnings          []string    `json:"warnings,omitempty" nullable:"false" doc:"what is dangerous about the change"`
}

// LogValue keeps the secrets out of logs.
func (p Proposed) LogValue() slog.Value { return slog.StringValue("change " + p.Change.ID) }

// Change returns one change.
func (c *Common) Change(ctx context.Context, id string) (ChangeEntry, error) {
	return ask[ChangeEntry](ctx, c, http.MethodGet, pathOf("changes", id, ""), nil)
}

// propose makes a call whose answer is a T, or the change that waits for an approver.
func propose[T any](ctx context.Context, c *Common, method, path string, in any) (out T, p Proposed, err error) {
	err = c.callEither(ctx, method, path, in, &out, &p)
	return out, p, err
}

// waiting returns the change of p, nil if there is none.
func (p *Proposed) waiting() *ChangeEntry {
	if p.Change.ID == "" {
		return nil
	}
	return &p.Change
}
