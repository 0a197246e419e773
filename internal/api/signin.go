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
	// freshFor is the greatest age of the last sign-in of a person who decides on money.
	freshFor db.Millis = 5 * 60_000
)

// errAgain asks the person to sign in again, in the form of RFC 9470.
var errAgain = &client.Problem{Status: http.StatusUnauthorized, Title: http.StatusText(http.StatusUnauthorized), Code: client.CodeSignInAgain,
	Detail: "you signed in more than five minutes ago: sign in again at the identity provider, then repeat this"}

// Fresh marks an act that moves money or decides on it. A person must have signed in within the last five minutes, so
// a browser that was left open or a stolen session is not enough. A token has no sign-in and passes. Every such act
// has Fresh in the tables of routes.
func Fresh(h Handler) Handler {
	h.fresh = true
	return h
}

// CheckFresh makes the check of Fresh, for a handler that needs it only in some cases.
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

// seal returns v as a text for somebody who must return it unchanged and cannot read it. open reads it.
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
