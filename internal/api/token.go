package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// TokenStore finds the token that belongs to a secret. *Tokens is one.
type TokenStore interface {
	ByHash(ctx context.Context, hash [sha256.Size]byte) (Token, error)
	BySession(ctx context.Context, secret string) (Token, error)
	List(ctx context.Context) ([]Token, error)
}

// tokenTTL is how long another node may still accept a revoked token. A session of the console ends at most a second
// after its token, including the console's own checks.
const tokenTTL = 400 * time.Millisecond

// tokens caches valid tokens for tokenTTL and holds the bounds of each token. Invalid tokens are not cached, so
// guesses use no memory.
type tokens struct {
	mu     sync.Mutex
	known  map[[sha256.Size]byte]knownToken
	drops  int                // counts calls of forget; a look-up that began before a call is not cached
	bounds map[string]*bounds // by id
}

// bounds limits the calls of one token.
type bounds struct {
	calls *rate.Limiter
	reads chan struct{} // holds a value for each read that runs
}

type knownToken struct {
	Token
	asked time.Time // when the database was asked
}

// fresh reports whether the token may still be used without asking the database. A clock that was set back does not
// extend that time.
func (k knownToken) fresh(now time.Time) bool {
	age := now.Sub(k.asked)
	return age >= 0 && age < tokenTTL
}

// forget empties the cache, so that a revocation takes effect on this node at once.
func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.known)
	t.drops++
}

// admit returns an error if the caller has no valid token, lacks a role that the route needs, or exceeds the rate
// limit.
func (a *API) admit(c *Call) error {
	if c.rt.open() {
		return nil
	}
	if err := c.checkToken(false); err != nil {
		return err
	}
	if c.rt.fresh {
		if err := c.CheckFresh(); err != nil {
			return err
		}
	}
	c.R = c.R.WithContext(journal.By(c.R.Context(), c.actor())) // the audit log names who acted
	token := c.Token
	if a.c.RatePerSecond == 0 {
		return nil
	}
	now := a.c.Now()
	if r := a.boundsOf(token.ID).calls.ReserveN(now, 1); r.DelayFrom(now) > 0 {
		wait := r.DelayFrom(now)
		r.CancelAt(now)
		c.W.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		return NewProblem(http.StatusTooManyRequests, fmt.Sprintf("more than %g requests a second with one token",
			a.c.RatePerSecond))
	}
	return nil
}

// checkToken returns an error if the caller may not make this call now. With fresh it asks the database. Otherwise a
// token counts as valid for tokenTTL after it was looked up.
func (c *Call) checkToken(fresh bool) error {
	if c.rt.open() {
		return nil
	}
	token, err := c.a.authenticate(c.R, fresh)
	if err != nil {
		var p *client.Problem
		if errors.As(err, &p) && p.Status == http.StatusUnauthorized && !c.W.Answered() {
			c.W.Header().Set("WWW-Authenticate", `Bearer realm="countersign"`)
		}
		return err
	}
	if !fresh { // a later check may run on another goroutine; nothing in the token changes
		c.Token = token
	}
	return c.rt.mayCall(token, c.merchant)
}

func (a *API) authenticate(r *http.Request, fresh bool) (Token, error) {
	now, from := a.c.Now(), guesser(r)
	wrong := func(why *client.Problem) (Token, error) {
		if !a.guesses.take(from, now) {
			return Token{}, errGuesses
		}
		return Token{}, why
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	session := strings.HasPrefix(secret, providerPrefix)
	if !strings.EqualFold(scheme, "Bearer") || !session && !strings.HasPrefix(secret, tokenPrefix) ||
		len(r.Header.Values("Authorization")) > 1 {
		return wrong(errToken)
	}
	hash := HashToken(secret)
	a.tokens.mu.Lock()
	known, ok := a.tokens.known[hash]
	drops := a.tokens.drops
	a.tokens.mu.Unlock()
	if ok && !fresh && known.fresh(now) {
		if known.ended(db.MillisOf(now)) != nil {
			return wrong(errExpired)
		}
		return known.Token, nil
	}
	if !ok && !session && a.guesses.throttled(from, now) {
		switch may, err := a.mayBeValid(r, hash, now); {
		case err != nil:
			return Token{}, fmt.Errorf("looking up the tokens: %w", err)
		case !may:
			return wrong(errToken)
		}
	}
	token, err := Token{}, error(nil)
	if session {
		token, err = a.c.Tokens.BySession(r.Context(), secret)
	} else {
		token, err = a.c.Tokens.ByHash(r.Context(), hash)
	}
	why := errToken
	if err == nil {
		why = token.ended(db.MillisOf(now))
	}
	switch {
	case err != nil && !errors.Is(err, db.ErrNotFound):
		return Token{}, fmt.Errorf("looking up the token: %w", err)
	case why != nil:
		if ok { // only tokens that were valid once are cached
			a.tokens.forget()
		}
		return wrong(why)
	}
	a.tokens.mu.Lock()
	if drops == a.tokens.drops {
		a.tokens.known[hash] = knownToken{token, now}
	}
	a.tokens.mu.Unlock()
	return token, nil
}

// boundsOf returns the bounds of the token with an id.
func (a *API) boundsOf(id string) *bounds {
	a.tokens.mu.Lock()
	defer a.tokens.mu.Unlock()
	b := a.tokens.bounds[id]
	if b == nil {
		b = &bounds{rate.NewLimiter(rate.Limit(a.c.RatePerSecond), max(1, int(a.c.RatePerSecond))),
			make(chan struct{}, maxTokenReads)}
		a.tokens.bounds[id] = b
	}
	return b
}

// ForgetTokens makes this node look up all tokens anew, so that a revocation takes effect at once.
func (c *Call) ForgetTokens() { c.a.tokens.forget() }

// mayCall returns an error if the role or the merchants of a valid token do not allow the route. merchant is the one
// in the path.
func (rt *Endpoint) mayCall(t Token, merchant string) error {
	switch {
	case !slices.Contains(rt.Roles, t.Role):
		return NewProblem(http.StatusForbidden, fmt.Sprintf("the token has the role %s; this needs %s", t.Role,
			wordsOf(rt.Roles, " or ")))
	case t.Merchants == "":
		return nil
	case rt.Scope == Whole:
		return NewProblem(http.StatusForbidden, "the token is bound to some merchants: this needs one for all of them")
	case rt.Scope == ByPath && !t.Sees(merchant):
		return db.ErrNotFound
	}
	return nil
}

// mayBeValid reports whether a token with this hash may have been valid within tokenTTL. It reads the tokens at most
// once in tokenTTL, however many guesses arrive.
func (a *API) mayBeValid(r *http.Request, hash [sha256.Size]byte, now time.Time) (bool, error) {
	g := a.guesses
	g.validMu.Lock()
	defer g.validMu.Unlock()
	if g.valid == nil || now.Sub(g.asked) >= tokenTTL || now.Before(g.asked) {
		ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
		defer cancel()
		list, err := a.c.Tokens.List(ctx)
		if err != nil {
			return false, err
		}
		g.valid, g.asked = map[string]bool{}, now
		for _, t := range list {
			g.valid[t.Fingerprint] = g.valid[t.Fingerprint] || t.Revoked == 0
		}
	}
	return g.valid[fingerprintOf(hash[:])], nil
}

// freshFor is the greatest age of the last sign-in of a person who decides on money.
const freshFor db.Millis = 5 * 60_000

// errAgain asks the person to sign in again, in the form of RFC 9470.
var errAgain = &client.Problem{Status: http.StatusUnauthorized, Title: http.StatusText(http.StatusUnauthorized),
	Code: client.CodeSignInAgain, Detail: "you signed in more than five minutes ago: sign in again at the identity provider, then repeat this"}

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
