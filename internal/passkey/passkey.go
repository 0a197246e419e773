// Package passkey checks what passkeys (WebAuthn) sign: registrations, sign-ins, and assertions over a statement of exactly what a person approves.
package passkey

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// Key is the public part of a passkey.
type Key struct {
	ID     string // of the credential, Base64url
	Public []byte // COSE
	Origin string // of the page that it is for: scheme, host and port
}

// Algorithms are those of WebAuthn that a key may have, the preferred first: ES256, EdDSA
// and RS256.
var Algorithms = []int64{int64(webauthncose.AlgES256), int64(webauthncose.AlgEdDSA), int64(webauthncose.AlgRS256)}

// ErrAssertion means that an assertion or a registration does not prove what it should.
var ErrAssertion = errors.New("the passkey's signature does not fit")

// ErrOrigin means that a page has an address for which browsers make no passkeys.
var ErrOrigin = errors.New("browsers make passkeys only for host names, by https or at localhost")

// HostOf gives the host that browsers bind passkeys of a page to. They make none for
// addresses of numbers, nor without TLS but on localhost.
func HostOf(origin string) (string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return "", ErrOrigin
	}
	host := u.Hostname()
	switch {
	case u.Scheme == "http" && host == "localhost":
	case u.Scheme == "https" && !numeric(host):
	default:
		return "", ErrOrigin
	}
	return host, nil
}

func numeric(host string) bool {
	return !slices.ContainsFunc([]byte(host), func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }) || bytes.ContainsRune([]byte(host), ':')
}

// NewChallenge gives 32 random bytes.
func NewChallenge() []byte {
	b := make([]byte, 32)
	rand.Read(b)
	return b
}

// Encode writes bytes as WebAuthn does in JSON.
func Encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// hostFor gives the host of the origin of a key, if a response says that it is of this origin.
// Browsers bind a key to the host alone, so a page of another port could use it.
func hostFor(origin, said string) (string, error) {
	host, err := HostOf(origin)
	if err != nil || said != origin {
		return "", fmt.Errorf("%w: it is of the page %q", ErrAssertion, said)
	}
	return host, nil
}

// Register checks the registration of a key for the page with an origin and gives the key.
// credential is what the browser made, as JSON.
func Register(credential, challenge []byte, origin string) (Key, error) {
	p, err := protocol.ParseCredentialCreationResponseBytes(credential)
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrAssertion, err)
	}
	host, err := hostFor(origin, p.Response.CollectedClientData.Origin)
	if err != nil {
		return Key{}, err
	}
	var params []protocol.CredentialParameter
	for _, a := range Algorithms {
		params = append(params, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.COSEAlgorithmIdentifier(a)})
	}
	_, err = p.Verify(Encode(challenge), host, []string{origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false, true, true, nil, params,
		protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if err != nil {
		return Key{}, fmt.Errorf("%w: %w", ErrAssertion, err)
	}
	data := p.Response.AttestationObject.AuthData.AttData
	return Key{ID: Encode(data.CredentialID), Public: data.CredentialPublicKey, Origin: origin}, nil
}

// CredentialOf gives the id of the credential of an assertion, not verified.
func CredentialOf(assertion []byte) (string, error) {
	p, err := protocol.ParseCredentialRequestResponseBytes(assertion)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAssertion, err)
	}
	return Encode(p.RawID), nil
}

// Assert checks that a person with k has signed a challenge, with the device's own check
// of the person. It gives the key's counter, 0 where it has none.
func Assert(k Key, assertion, challenge []byte) (counter uint32, err error) {
	p, err := protocol.ParseCredentialRequestResponseBytes(assertion)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrAssertion, err)
	}
	if Encode(p.RawID) != k.ID {
		return 0, fmt.Errorf("%w: it is of another passkey", ErrAssertion)
	}
	host, err := hostFor(k.Origin, p.Response.CollectedClientData.Origin)
	if err != nil {
		return 0, err
	}
	err = p.Verify(Encode(challenge), host, "", []string{k.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false, true, true, k.Public,
		protocol.SignaturePolicy{})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrAssertion, err)
	}
	return p.Response.AuthenticatorData.Counter, nil
}

// Statement is what a person approves. Its text is what the challenge is the digest of.
type Statement struct {
	Act   string          `json:"act"`   // the kind of the record in the audit log
	At    int64           `json:"at"`    // when it was shown, in milliseconds since 1970
	Token string          `json:"token"` // id of the person's token
	ID    string          `json:"id"`    // of what it is about
	About json.RawMessage `json:"about"` // all of it that counts
}

// Text writes s. Equal statements have one text.
func (s Statement) Text() (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}

// ReadStatement inverts Text. Any other text is refused.
func ReadStatement(text string) (s Statement, err error) {
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("%w: its statement is no JSON", ErrAssertion)
	}
	if again, err := s.Text(); err != nil || again != text {
		return s, fmt.Errorf("%w: its statement is not written as it was given", ErrAssertion)
	}
	return s, nil
}

// Challenge is the digest of a statement's text.
func Challenge(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// Evidence is what shows, to anybody and for ever, that the holder of a passkey approved
// a statement.
type Evidence struct {
	Statement string          `json:"statement"`
	Key       string          `json:"key"`    // id of the credential
	Public    string          `json:"public"` // its COSE key, Base64url
	Origin    string          `json:"origin"`
	Assertion json.RawMessage `json:"assertion"`
}

// EvidenceOf keeps an assertion that Assert has found good.
func EvidenceOf(text string, k Key, assertion json.RawMessage) (Evidence, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, assertion); err != nil {
		return Evidence{}, fmt.Errorf("%w: %w", ErrAssertion, err)
	}
	return Evidence{Statement: text, Key: k.ID, Public: Encode(k.Public), Origin: k.Origin, Assertion: b.Bytes()}, nil
}

// Check verifies the evidence with nothing but itself and gives what was approved.
func (e Evidence) Check() (Statement, error) {
	public, err := base64.RawURLEncoding.DecodeString(e.Public)
	if err != nil {
		return Statement{}, fmt.Errorf("%w: its key is no Base64url", ErrAssertion)
	}
	if _, err := Assert(Key{e.Key, public, e.Origin}, e.Assertion, Challenge(e.Statement)); err != nil {
		return Statement{}, err
	}
	return ReadStatement(e.Statement)
}
