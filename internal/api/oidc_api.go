package api

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"countersign/client"
	"countersign/internal/db"
)

// providerState is what the end of a sign-in needs to know of its beginning. The browser that began it keeps it,
// sealed.
type providerState struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Redirect string    `json:"r"`
	At       db.Millis `json:"a"`
	Again    bool      `json:"f,omitempty"` // the person must have signed in within freshFor
}

const (
	providerStatePurpose = "provider"
	// providerLife is how long a person has to sign in at the provider.
	providerLife db.Millis = 10 * 60_000
	// returnPath is the console's path that the provider sends people back to.
	returnPath = "/console/signin/provider/return"
)

var (
	errNoProvider = NewProblem(http.StatusNotFound, "no identity provider is set up here: sign in with a token")
	errSignInOld  = NewProblem(http.StatusUnprocessableEntity,
		"this sign-in did not begin in this browser, was ended before, or began more than 10 minutes ago: sign in again")
	errNotFresh = NewProblem(http.StatusUnauthorized,
		"the identity provider did not have you sign in again, or does not say when you did: approvals, thaws and credits need a client for which it obeys max_age and gives auth_time in the ID token")
	errNotSigned = NewProblem(http.StatusUnauthorized,
		"the identity provider's answer does not sign in here: sign in again; the log of this end says what was wrong")
	errRoleless = NewProblem(http.StatusForbidden,
		"the identity provider knows you, and none of the groups that it names has a role here: whoever runs this sets it with --oidc-groups")
	errGroupsLeftOut = NewProblem(http.StatusForbidden,
		"the identity provider left your groups out of its token, since there are too many (overage): whoever runs it assigns the groups to this application and sends these alone, or uses app roles with --oidc-claim roles")
)

// errNoTime means that the person had to sign in again, and that the provider's answer does not prove it.
var errNoTime = errors.New("the identity provider's answer does not show a new sign-in")

// provider returns the issuer of the provider, and a problem if it cannot be used now.
func (k *Tokens) provider(c *Call, _ None, _ None) (out client.Provider, err error) {
	people := k.people
	if people == nil {
		return out, nil
	}
	out.Issuer = people.c.Issuer
	if _, err := people.known(c.R.Context()); err != nil {
		out.Problem = errAway.Error()
	}
	return out, nil
}

// beginProvider begins a sign-in from a page of the given origin.
func (k *Tokens) beginProvider(c *Call, _ None, in client.ProviderOrigin) (out client.ProviderBegun, err error) {
	people := k.people
	if people == nil {
		return out, errNoProvider
	}
	at, err := url.Parse(in.Origin)
	if err != nil || at.Host == "" || at.Path != "" || at.RawQuery != "" || secureURL(in.Origin) != nil {
		return out, Invalid(At("body.origin", "is not https://HOST, or http on this machine: open the console by https"))
	}
	known, err := people.known(c.R.Context())
	if err != nil {
		return out, away(err)
	}
	s := providerState{RandomText(32), RandomText(32), oauth2.GenerateVerifier(), in.Origin + returnPath, c.Now, in.Again}
	options := []oauth2.AuthCodeOption{oidc.Nonce(s.Nonce), oauth2.S256ChallengeOption(s.Verifier)}
	if s.Again {
		options = append(options, oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(freshFor/1000))))
	}
	out.URL = people.oauth(known, s.Redirect).AuthCodeURL(s.State, options...)
	out.State, err = k.seal(providerStatePurpose, s)
	return out, err
}

// away returns the problem for errAway, and any other error as it is.
func away(err error) error {
	if !errors.Is(err, errAway) {
		return err
	}
	return NewProblem(http.StatusServiceUnavailable, "the identity provider cannot be used now; tokens still sign in")
}

// finishProvider completes a sign-in with what the provider sent the browser back with.
func (k *Tokens) finishProvider(c *Call, _ None, in client.ProviderReturn) (out client.SignedIn, err error) {
	people, ctx := k.people, c.R.Context()
	if people == nil {
		return out, errNoProvider
	}
	var s providerState
	if k.open(providerStatePurpose, in.State, &s) != nil || c.Now > s.At+providerLife || c.Now < s.At-providerLife ||
		subtle.ConstantTimeCompare([]byte(s.State), []byte(in.ReturnedState)) != 1 {
		if !c.a.guesses.take(guesser(c.R), c.a.c.Now()) {
			return out, errGuesses
		}
		return out, errSignInOld
	}
	if !c.a.ends.take(guesser(c.R), c.a.c.Now()) {
		return out, errGuesses
	}
	once := "provider " + s.State[:22]
	if ended, err := k.d.SessionEnded(ctx, once); err != nil || ended {
		return out, cmp.Or(err, error(errSignInOld))
	}
	if _, err := people.known(ctx); err != nil {
		return out, away(err)
	}
	// An answer of another provider must not be accepted as this one's (RFC 9207).
	if in.Issuer != "" && in.Issuer != people.c.Issuer || in.Issuer == "" && people.strict {
		return out, k.refused(c, person{}, fmt.Errorf("%w: it is of the issuer %q", errRefused, cleanName(in.Issuer)))
	}
	a, err := people.exchange(ctx, in.Code, s.Redirect, s.Verifier, s.Nonce)
	switch age := c.Now - a.signedIn; {
	case err != nil:
	case a.signedIn > c.Now+db.Millis(maxSkew/time.Millisecond):
		err = fmt.Errorf("%w: its auth_time is ahead of the clock here", errRefused)
	case s.Again && a.signedIn == 0:
		err = fmt.Errorf("%w: it was asked with max_age, and its ID token has no auth_time", errNoTime)
	case s.Again && age >= freshFor:
		err = fmt.Errorf("%w: it was asked with max_age=%d, and its auth_time is %d seconds ago", errNoTime,
			freshFor/1000, age/1000)
	}
	if err != nil {
		return out, k.refused(c, a.person, err)
	}
	// A sign-in ends only once, whichever node ends it. Nothing is stored before, because a stranger can begin any
	// number of sign-ins.
	first, err := k.d.EndSession(ctx, once, c.Now, s.At+providerLife)
	if err == nil && !first {
		err = errSignInOld
	}
	if err != nil {
		return out, err
	}
	return k.startSession(ctx, c, a)
}

// refused logs why a sign-in failed, and returns the error that the person sees.
func (k *Tokens) refused(c *Call, who person, err error) error {
	_, sub, _ := strings.Cut(who.Subject, " ")
	k.people.log.Warn("a sign-in with the identity provider was refused", "subject", sub, "error", err.Error())
	switch {
	case errors.Is(err, errLeftOut):
		return errors.Join(k.roleless(c.R.Context(), who, c.Now), errGroupsLeftOut)
	case errors.Is(err, errNoRole):
		return errors.Join(k.roleless(c.R.Context(), who, c.Now), errRoleless)
	case errors.Is(err, errNoTime):
		return errNotFresh
	case errors.Is(err, errRefused):
		return errNotSigned
	}
	return away(err)
}
