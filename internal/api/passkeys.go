package api

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/passkey"
)

// Passkeys answers the routes of passkeys, which both ends have. Its zero value has none; see Changes.Passkeys.
type Passkeys struct{ tokens *Tokens }

var (
	errUnsigned     = NewProblem(http.StatusForbidden, "the token has passkeys: this must be signed with one of them, and the token alone does not do. Do it in the console, at /console/ of this API")
	errSignIn       = NewProblem(http.StatusUnauthorized, "this passkey is not known here, or its token is no longer valid")
	errNoPasskey    = NewProblem(http.StatusForbidden, "this role does this only with a passkey: register one on the page Passkeys of the console, then do it there")
	errSignInPerson = NewProblem(http.StatusUnauthorized, "this passkey is of a person who signs in with the identity provider: it signs what that person approves, and signs in nobody")
	errState        = NewProblem(http.StatusUnprocessableEntity, "the challenge is not of this end, or is older than 5 minutes")
)

const (
	challengeLife db.Millis = 5 * 60_000
	statementLife db.Millis = 15 * 60_000
	signInLife    db.Millis = 12 * 3600_000
)

// challengeState is what a ceremony's first step leaves for its second.
type challengeState struct {
	Challenge []byte    `json:"c"`
	Origin    string    `json:"o"`
	Token     string    `json:"t"` // empty: a sign-in
	At        db.Millis `json:"a"`
}

var (
	passkeyRecordOfDB = db.Record{Table: "passkeys"}
	statePurpose      = "challenge"
	signInPurpose     = "session"
)

func (p Passkeys) begin(c *Call, origin, token string) (out client.PasskeyChallenge, err error) {
	host, err := passkey.HostOf(origin)
	if err != nil {
		return out, Invalid(At("body.origin", "has no passkeys: "+err.Error()))
	}
	s := challengeState{passkey.NewChallenge(), origin, token, c.Now}
	out = client.PasskeyChallenge{Challenge: passkey.Encode(s.Challenge), Host: host}
	out.State, err = p.seal(c.R.Context(), statePurpose, s)
	return out, err
}

func (p Passkeys) seal(ctx context.Context, purpose string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sealed, err := p.tokens.d.SealText(ctx, passkeyRecordOfDB, purpose, text)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

func (p Passkeys) open(ctx context.Context, purpose, sealed string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return err
	}
	text, err := p.tokens.d.OpenText(ctx, passkeyRecordOfDB, purpose, raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

func (p Passkeys) state(c *Call, sealed, token string) (s challengeState, err error) {
	if p.open(c.R.Context(), statePurpose, sealed, &s) != nil || s.Token != token || c.Now > s.At+challengeLife {
		return s, errState
	}
	return s, nil
}

// addition is the registration that a person agrees to.
type addition struct {
	Challenge string `json:"challenge"`
}

// challenge begins a registration.
func (p Passkeys) challenge(c *Call, _ None, in client.PasskeyOrigin) (client.PasskeyChallenge, error) {
	out, err := p.begin(c, in.Origin, c.Token.ID)
	if err != nil {
		return out, err
	}
	out.User, out.UserName, out.Algorithms = c.Token.ID, c.Token.Name, passkey.Algorithms
	out.Addition, err = p.Statement(c, recordPasskeyAdded, c.Token.ID, addition{out.Challenge})
	return out, err
}

// add registers a passkey.
func (p Passkeys) add(c *Call, _ None, in client.NewPasskey) (client.Passkey, error) {
	s, err := p.state(c, in.State, c.Token.ID)
	if err != nil {
		return client.Passkey{}, err
	}
	if err := db.CheckText("name", in.Name); err != nil {
		return client.Passkey{}, Invalid(At("body.name", "is not storable"))
	}
	key, err := passkey.Register(in.Credential, s.Challenge, s.Origin)
	if err != nil {
		return client.Passkey{}, unfit("body.credential", err)
	}
	ctx, signed, err := p.Signed(c, recordPasskeyAdded, c.Token.ID, addition{passkey.Encode(s.Challenge)}, in.Passkey)
	if err != nil {
		return client.Passkey{}, err
	}
	row := storedPasskey{Key: key, Token: c.Token.ID, Name: in.Name, Created: c.Now}
	if err := p.tokens.addPasskey(ctx, row, passkey.Encode(s.Challenge), !signed); err != nil {
		return client.Passkey{}, err
	}
	return p.shown(c, row)
}

func (p Passkeys) shown(c *Call, row storedPasskey) (client.Passkey, error) {
	removal, err := p.Statement(c, recordPasskeyRemoved, row.ID, json.RawMessage(`{}`))
	return client.Passkey{ID: row.ID, Name: row.Name, Origin: row.Origin, Created: TimeOf(row.Created), Used: TimeOf(row.Used), Removal: removal}, err
}

// list lists those of the caller's token.
func (p Passkeys) list(c *Call, _ None, _ None) (client.Passkeys, error) {
	out := client.Passkeys{Passkeys: []client.Passkey{}}
	rows, err := passkeysOf(c.R.Context(), p.tokens.d, c.Token.ID)
	for _, row := range rows {
		if row.gone {
			continue
		}
		shown, err := p.shown(c, row)
		if err != nil {
			return out, err
		}
		out.Passkeys = append(out.Passkeys, shown)
	}
	return out, err
}

// remove removes one of the caller's token.
func (p Passkeys) remove(c *Call, _ None, in client.SignedAct) (None, error) {
	id := c.R.PathValue("id")
	ctx, _, err := p.Signed(c, recordPasskeyRemoved, id, json.RawMessage(`{}`), in.Passkey)
	if err != nil {
		return None{}, err
	}
	defer c.a.tokens.forget() // sessions of this passkey end
	return None{}, p.tokens.removePasskey(ctx, c.Token, id, c.Now)
}

// signInChallenge begins a sign-in.
func (p Passkeys) signInChallenge(c *Call, _ None, in client.PasskeyOrigin) (client.PasskeyChallenge, error) {
	return p.begin(c, in.Origin, "")
}

// signInSecret is what the secret of a session has sealed in it.
type signInSecret struct {
	Token   string    `json:"t"`
	Passkey string    `json:"p"`
	Expires db.Millis `json:"e"`
}

// signIn gives a session.
func (p Passkeys) signIn(c *Call, _ None, in client.PasskeySignIn) (out client.SignedIn, err error) {
	s, err := p.state(c, in.State, "")
	if err != nil {
		return out, err
	}
	id, err := passkey.CredentialOf(in.Credential)
	if err != nil {
		return out, errSignIn
	}
	ctx := c.R.Context()
	found, err := passkeys(ctx, p.tokens.d, passkeyByIDSQL, id)
	if err != nil {
		return out, err
	}
	if len(found) != 1 || found[0].forged || found[0].Origin != s.Origin {
		return out, errSignIn
	}
	row := found[0]
	counter, err := passkey.Assert(row.Key, in.Credential, s.Challenge)
	if err != nil {
		return out, errSignIn
	}
	token, err := p.tokens.ByID(ctx, row.Token)
	if errors.Is(err, db.ErrNotFound) || err == nil && token.ended(c.Now) != nil {
		return out, errSignIn
	}
	if err == nil && !token.has(row.ID) {
		passkeyRows.Doubt(p.tokens.d, row.ID)
		return out, errSignIn
	}
	if err == nil && token.Subject != "" { // else the session would not end with the provider's
		return out, errSignInPerson
	}
	if err == nil {
		c.Token = token
		err = p.tokens.signInPasskey(c.acting(), row, counter, c.Now, s.At)
	}
	if errors.Is(err, passkey.ErrAssertion) {
		return out, errSignIn
	}
	if err != nil {
		return out, err
	}
	expires := c.Now + signInLife
	secret, err := p.seal(ctx, signInPurpose, signInSecret{row.Token, row.ID, expires})
	return client.SignedIn{Secret: client.Secret(sessionPrefix + secret), Expires: TimeOf(expires)}, err
}

// sessionPrefix begins the secret of a session.
const sessionPrefix = "csp_"

// BySession gives the token of a session, which ends with the session. ErrNotFound: there
// is no such session any more.
func (k *Tokens) BySession(ctx context.Context, secret string) (Token, error) {
	if strings.HasPrefix(secret, providerPrefix) {
		return k.byProvider(ctx, secret)
	}
	var s signInSecret
	if (Passkeys{k}).open(ctx, signInPurpose, strings.TrimPrefix(secret, sessionPrefix), &s) != nil {
		return Token{}, db.ErrNotFound
	}
	found, err := passkeys(ctx, k.d, passkeyByIDSQL, s.Passkey)
	if err != nil {
		return Token{}, err
	}
	if len(found) != 1 || found[0].forged || found[0].Token != s.Token {
		return Token{}, db.ErrNotFound
	}
	t, err := k.ByID(ctx, s.Token)
	if err == nil && (!t.has(s.Passkey) || t.Subject != "") {
		err = db.ErrNotFound
	}
	if t.Expires == 0 || s.Expires < t.Expires {
		t.Expires = s.Expires
	}
	return t, err
}

// Statement gives what the caller must sign to do act about id. about is all of it that
// counts.
func (p Passkeys) Statement(c *Call, act, id string, about any) (client.Statement, error) {
	out := client.Statement{Credentials: []string{}}
	text, err := statement(c, act, id, about, c.Now)
	if err != nil {
		return out, err
	}
	out.Text, out.Challenge = text, passkey.Encode(passkey.Challenge(text))
	rows, err := passkeysOf(c.R.Context(), p.tokens.d, c.Token.ID)
	for _, row := range rows {
		if row.gone {
			continue
		}
		out.Credentials = append(out.Credentials, row.ID)
		out.Host, _ = passkey.HostOf(row.Origin) // it was one when the passkey was made
	}
	if err == nil && act != recordPasskeyAdded && len(rows) == 0 && p.tokens.mustSign(c.Token) {
		out.MayNot = errNoPasskey.Detail
	}
	return out, err
}

// MustSign reports whether passkeys are required of the role of the call's token.
func (p Passkeys) MustSign(c *Call) bool { return p.tokens.mustSign(c.Token) }

// StatementIfRequired is Statement for an act that is signed only where passkeys are required of
// the role: whoever stops or holds something needs to let it go on also without a browser.
// Others get one without passkeys.
func (p Passkeys) StatementIfRequired(c *Call, act, id string, about any) (client.Statement, error) {
	out, err := p.Statement(c, act, id, about)
	if !p.MustSign(c) {
		out.Credentials, out.Host = []string{}, ""
	}
	return out, err
}

// SignedIfRequired is Signed for such an act.
func (p Passkeys) SignedIfRequired(c *Call, act, id string, about any, in *client.Assertion) (context.Context, error) {
	if !p.MustSign(c) && in == nil {
		return c.R.Context(), nil
	}
	ctx, _, err := p.Signed(c, act, id, about, in)
	return ctx, err
}

// mustSign reports whether a token approves nothing without a passkey.
func (k *Tokens) mustSign(t Token) bool { return slices.Contains(k.required, t.Role) }

func statement(c *Call, act, id string, about any, at db.Millis) (string, error) {
	raw, err := journal.Marshal(about)
	if err != nil {
		return "", err
	}
	return passkey.Statement{Act: act, At: int64(at), Token: c.Token.ID, ID: id, About: raw}.Text()
}

// Signed checks that the person of a token with passkeys has signed act about id, as it is
// now. Records that are added under its context keep the assertion. signed is false for a
// token without passkeys, which needs none unless its role must have one.
func (p Passkeys) Signed(c *Call, act, id string, about any, in *client.Assertion) (_ context.Context, signed bool, err error) {
	ctx := c.R.Context()
	rows, err := passkeysOf(ctx, p.tokens.d, c.Token.ID)
	if err == nil && len(rows) == 0 && act != recordPasskeyAdded && p.tokens.mustSign(c.Token) {
		err = errNoPasskey
	}
	if err != nil || len(rows) == 0 {
		return ctx, false, err
	}
	if in == nil {
		return ctx, false, errUnsigned
	}
	s, err := passkey.ReadStatement(in.Text)
	if err != nil {
		return ctx, false, unfit("body.passkey.text", err)
	}
	want, err := statement(c, act, id, about, db.Millis(s.At))
	switch {
	case err != nil:
		return ctx, false, err
	case subtle.ConstantTimeCompare([]byte(want), []byte(in.Text)) != 1:
		return ctx, false, NewProblem(http.StatusForbidden, "what was signed is not what would be done now: look at it again")
	case db.Millis(s.At) > c.Now || c.Now > db.Millis(s.At)+statementLife:
		return ctx, false, NewProblem(http.StatusForbidden, "what was signed was shown more than 15 minutes ago: look at it again")
	}
	key, err := passkey.CredentialOf(in.Credential)
	if err != nil {
		return ctx, false, unfit("body.passkey.credential", err)
	}
	for _, row := range rows {
		if row.ID != key || row.forged {
			continue
		}
		counter, err := passkey.Assert(row.Key, in.Credential, passkey.Challenge(in.Text))
		if err == nil {
			err = p.tokens.usePasskey(ctx, row.ID, counter, c.Now)
		}
		if err != nil {
			return ctx, false, unfit("body.passkey.credential", err)
		}
		evidence, err := passkey.EvidenceOf(in.Text, row.Key, in.Credential)
		return journal.Signed(ctx, act, evidence), err == nil, err
	}
	return ctx, false, NewProblem(http.StatusForbidden, "it is signed with a passkey that is not of this token")
}

// unfit is the problem of a signature that does not fit. Other errors stay.
func unfit(at string, err error) error {
	if !errors.Is(err, passkey.ErrAssertion) {
		return err
	}
	return &client.Problem{Status: http.StatusForbidden, Title: http.StatusText(http.StatusForbidden), Detail: fmt.Sprintf("%s: %v", at, passkey.ErrAssertion)}
}
