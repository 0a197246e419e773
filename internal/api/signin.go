package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"

	"countersign/client"
	"countersign/internal/db"
)

const (
	// signInLife is the longest life of a session.
	signInLife db.Millis = 12 * 3600_000
	// freshFor is how old the last sign-in of a person may be who decides on money.
	freshFor db.Millis = 5 * 60_000
)

// errAgain asks for another sign-in by what RFC 9470 says in a header.
var errAgain = &client.Problem{Status: http.StatusUnauthorized, Title: http.StatusText(http.StatusUnauthorized), Code: client.CodeSignInAgain,
	Detail: "you signed in more than five minutes ago: sign in again at the identity provider, then repeat this"}

// Fresh makes h of an act that moves money or decides on it: a person must have signed in within
// the last five minutes, so that a browser left open, or a stolen session, does not do. Tokens have
// no sign-in. Every such act is in the tables of routes with it.
func Fresh(h Handler) Handler {
	h.fresh = true
	return h
}

// CheckFresh is what Fresh asks, for a handler that asks only sometimes.
func (c *Call) CheckFresh() error {
	if t := c.Token; t.Subject == "" || c.Now >= t.signedIn-freshFor && c.Now < t.signedIn+freshFor {
		return nil
	}
	if !c.W.Answered() {
		c.W.Header().Set("WWW-Authenticate", `Bearer error="insufficient_user_authentication", max_age="300"`)
	}
	return errAgain
}

var sealedRecord = db.Record{Table: "sessions"}

// seal returns v to somebody who must give it back unread and unchanged.
func (k *Tokens) seal(purpose string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(k.d.SealText(sealedRecord, purpose, text)), nil
}

func (k *Tokens) open(purpose, sealed string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return err
	}
	text, err := k.d.OpenText(sealedRecord, purpose, raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
