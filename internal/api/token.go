package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"countersign/client"
	"countersign/internal/db"
)

// TokenStore finds the token that belongs to a secret. *Tokens is one.
type TokenStore interface {
	ByHash(ctx context.Context, hash [sha256.Size]byte) (Token, error)
	BySession(ctx context.Context, secret string) (Token, error)
	List(ctx context.Context) ([]Token, error)
}

const tokenPrefix = "cst_"

// MintToken returns a new secret for its owner, and the hash that the database stores.
func MintToken() (secret client.Secret, hash [sha256.Size]byte) {
	text := tokenPrefix + RandomText(32)
	return client.Secret(text), HashToken(text)
}

// IsToken reports whether secret has the form of a token.
func IsToken(secret string) bool {
	return strings.HasPrefix(secret, tokenPrefix) && len(secret) >= len(tokenPrefix)+32
}

// HashToken returns the hash under which a token is stored.
func HashToken(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// NewStoreToken returns the record of a token that no other token made, with a new id. Store it with a hash from
// MintToken.
func NewStoreToken(name string, role client.Role, now db.Millis) Token {
	id := "tok_" + RandomText(9)
	return Token{ID: id, Name: name, Role: role, Created: now, Root: id}
}

// RandomText returns n random bytes in base64url. Reading them never fails.
func RandomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
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

var (
	errToken   = NewProblem(http.StatusUnauthorized, "a valid token is needed: Authorization: Bearer TOKEN")
	errRevoked = NewProblem(http.StatusUnauthorized, "the token was revoked")
	errExpired = NewProblem(http.StatusUnauthorized, "the token has expired")
)

// Valid reports whether the token is neither revoked nor expired.
func (t Token) Valid(now db.Millis) bool { return t.ended(now) == nil }

// ended returns why a known token is no longer valid. It returns nil if the token is valid.
func (t *Token) ended(now db.Millis) *client.Problem {
	switch {
	case t.Revoked != 0:
		return errRevoked
	case t.Expires != 0 && now >= t.Expires:
		return errExpired
	}
	return nil
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
	c.R = c.R.WithContext(c.acting())
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

// CheckToken looks the caller's token up in the database. A long call that makes changes calls it right before each
// change, because the token may be revoked meanwhile.
func (c *Call) CheckToken() error { return c.checkToken(true) }

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
