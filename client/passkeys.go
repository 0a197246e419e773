package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Passkey is a passkey of a person. It belongs to a token.
type Passkey struct {
	ID      string `json:"id" doc:"id of the credential, Base64url"`
	Name    string `json:"name" doc:"name that the person gave it"`
	Origin  string `json:"origin" doc:"scheme, host and port of the console that it is for; it signs in no other"`
	Created Time   `json:"created" doc:"when it was registered"`
	Used    Time   `json:"used,omitzero" doc:"when it last signed; absent: never"`

	Removal Statement `json:"removal" doc:"what removing it must be signed with"`
}

// Passkeys are those of the caller's token.
type Passkeys struct {
	Passkeys []Passkey `json:"passkeys" nullable:"false" doc:"in the order of their registration"`
}

// Statement is what a person with passkeys must sign to approve something: an assertion
// of WebAuthn whose challenge is the SHA-256 of Text.
type Statement struct {
	Text        string   `json:"text" doc:"exactly what is approved, as JSON; it holds for 15 minutes"`
	Challenge   string   `json:"challenge" doc:"SHA-256 of text, Base64url: the challenge of the assertion"`
	Host        string   `json:"host,omitempty" doc:"host that the passkeys are bound to; absent: there are none"`
	Credentials []string `json:"credentials" nullable:"false" doc:"ids of the passkeys of the caller's token, Base64url; none: nothing need be signed"`
	MayNot      string   `json:"mayNot,omitempty" doc:"why the caller's token may not approve this now; absent: it may"`
}

// Assertion is a Statement that a passkey has signed.
type Assertion struct {
	Text       string          `json:"text" minLength:"1" maxLength:"32000" doc:"text of the statement, as it was given"`
	Credential json.RawMessage `json:"credential" doc:"what the browser's navigator.credentials.get gave, as JSON with Base64url"`
}

// PasskeyOrigin names the page that wants a passkey.
type PasskeyOrigin struct {
	Origin string `json:"origin" minLength:"1" maxLength:"300" doc:"scheme, host and port of the page, 1 to 300 characters"`
}

// PasskeyChallenge is what a browser needs to make a passkey, or to sign in with one.
type PasskeyChallenge struct {
	Challenge  string    `json:"challenge" doc:"to be signed, Base64url"`
	State      string    `json:"state" doc:"to be sent back with what the browser made, within 5 minutes"`
	Host       string    `json:"host" doc:"host that the passkey is bound to"`
	User       string    `json:"user,omitempty" doc:"id of the caller's token; absent for a sign-in"`
	UserName   string    `json:"userName,omitempty" doc:"name of the caller's token; absent for a sign-in"`
	Algorithms []int64   `json:"algorithms,omitempty" doc:"COSE numbers of the algorithms that the key may have; absent for a sign-in"`
	Addition   Statement `json:"addition,omitzero" doc:"what adding a passkey must be signed with where the token has some; absent for a sign-in"`
}

// NewPasskey is a passkey that a browser made.
type NewPasskey struct {
	Name       string          `json:"name" minLength:"1" maxLength:"100" doc:"name for people, 1 to 100 characters"`
	State      string          `json:"state" minLength:"1" maxLength:"4000" doc:"of the challenge"`
	Credential json.RawMessage `json:"credential" doc:"what the browser's navigator.credentials.create gave, as JSON with Base64url"`
	Passkey    *Assertion      `json:"passkey,omitempty" doc:"the signed addition; required where the token has passkeys"`
}

// SignedAct is an act that a person with passkeys signs.
type SignedAct struct {
	Passkey *Assertion `json:"passkey,omitempty" doc:"the signed statement of the act; required where the token has passkeys"`
}

// PasskeySignIn signs in with a passkey.
type PasskeySignIn struct {
	State      string          `json:"state" minLength:"1" maxLength:"4000" doc:"of the challenge"`
	Credential json.RawMessage `json:"credential" doc:"what the browser's navigator.credentials.get gave, as JSON with Base64url"`
}

// SignedIn is a session.
type SignedIn struct {
	Secret  Secret `json:"secret" doc:"to be sent in place of the token, whose rights it has"`
	Expires Time   `json:"expires" doc:"when it ends; it ends with the token and with the passkey too"`
}

// Passkeys lists those of the caller's token.
func (c *caller) Passkeys(ctx context.Context) ([]Passkey, error) {
	out, err := ask[Passkeys](ctx, c, http.MethodGet, "/v1/passkeys", nil)
	return out.Passkeys, err
}

// PasskeyChallenge begins the registration of a passkey by a page of this origin.
func (c *caller) PasskeyChallenge(ctx context.Context, origin string) (PasskeyChallenge, error) {
	return ask[PasskeyChallenge](ctx, c, http.MethodPost, "/v1/passkeys/challenge", PasskeyOrigin{origin})
}

// AddPasskey registers a passkey with the caller's token.
func (c *caller) AddPasskey(ctx context.Context, p NewPasskey) (Passkey, error) {
	return ask[Passkey](ctx, c, http.MethodPost, "/v1/passkeys", p)
}

// RemovePasskey removes one of the caller's token. The last one of an admin is
// ErrConflict.
func (c *caller) RemovePasskey(ctx context.Context, id string, signed *Assertion) error {
	return c.call(ctx, http.MethodPost, pathOf("passkeys", id, "/remove"), SignedAct{signed}, nil)
}

// SignInChallenge begins a sign-in with a passkey, by a page of this origin. It needs no
// token.
func (c *caller) SignInChallenge(ctx context.Context, origin string) (PasskeyChallenge, error) {
	return ask[PasskeyChallenge](ctx, c, http.MethodPost, "/v1/passkeys/signin/challenge", PasskeyOrigin{origin})
}

// SignIn gives a session with the rights of the passkey's token. It needs no token.
func (c *caller) SignIn(ctx context.Context, p PasskeySignIn) (SignedIn, error) {
	return ask[SignedIn](ctx, c, http.MethodPost, "/v1/passkeys/signin", p)
}

// ChangeApproval gives what the approval of a change must be signed with.
func (c *caller) ChangeApproval(ctx context.Context, id string) (Statement, error) {
	return ask[Statement](ctx, c, http.MethodGet, pathOf("changes", id, "/approval"), nil)
}

// ApproveChangeSigned is ApproveChange with the signed statement of ChangeApproval.
func (c *caller) ApproveChangeSigned(ctx context.Context, id string, signed *Assertion) (ChangeEntry, error) {
	return ask[ChangeEntry](ctx, c, http.MethodPost, pathOf("changes", id, "/approve"), SignedAct{signed})
}

// OrderApproval gives what the approval of an order must be signed with.
func (g *Gateway) OrderApproval(ctx context.Context, callBackID string) (Statement, error) {
	return ask[Statement](ctx, &g.caller, http.MethodGet, pathOf("orders", callBackID, "/approval"), nil)
}

// ApproveOrderSigned is ApproveOrder with the signed statement of OrderApproval.
func (g *Gateway) ApproveOrderSigned(ctx context.Context, callBackID, reason string, signed *Assertion) (Order, error) {
	return ask[Order](ctx, &g.caller, http.MethodPost, pathOf("orders", callBackID, "/approve"), Approve{reason, signed})
}

// Approve gives the reason for an approval, and its signature.
type Approve struct {
	Reason  string     `json:"reason,omitempty" maxLength:"500" doc:"the reason, kept for later readers, at most 500 characters"`
	Passkey *Assertion `json:"passkey,omitempty" doc:"the signed approval; required where the token has passkeys"`
}
