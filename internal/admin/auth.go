package admin

import (
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

	"countersign/internal/store"
)

// access is what a route asks of its caller.
type access int

const (
	open access = iota // no token
	viewer
	ingest
	operator
)

func (a access) String() string { return [...]string{"none", "viewer", "ingest", "operator"}[a] }

// grants turns a role into the access that it gives. A role that is not known
// gives none that a route asks for.
func grants(r store.Role) access {
	switch r {
	case store.RoleViewer:
		return viewer
	case store.RoleIngest:
		return ingest
	case store.RoleOperator:
		return operator
	}
	return open
}

const tokenPrefix = "cst_"

// MintToken makes a token: secret is for its owner, hash is what the store
// keeps.
func MintToken() (secret Secret, hash [sha256.Size]byte) {
	text := tokenPrefix + randomText(32)
	return Secret(text), HashToken(text)
}

// IsToken says whether secret has the form of a token.
func IsToken(secret string) bool {
	return strings.HasPrefix(secret, tokenPrefix) && len(secret) >= len(tokenPrefix)+32
}

// HashToken is the form in which tokens are kept.
func HashToken(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// randomText gives n random bytes as text. The source never fails.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// tokenTTL bounds for how long another node still takes a revoked token.
const tokenTTL = time.Second

// tokens remembers valid tokens for tokenTTL and how much each has used up.
// Tokens that are not valid leave no trace, so guessing fills nothing.
type tokens struct {
	mu     sync.Mutex
	known  map[[sha256.Size]byte]knownToken
	drops  int // grows with forget; a look-up from before it is not kept
	limits map[string]*rate.Limiter
}

type knownToken struct {
	store.Token
	until time.Time
}

// forget drops all tokens, so that a revocation holds at once on this node.
func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.known)
	t.drops++
}

var errToken = problem(http.StatusUnauthorized, "a valid token is needed: Authorization: Bearer TOKEN")

// admit turns away a caller without a valid token, without the role that the
// route needs, or in too great a hurry.
func (s *Server) admit(c *call) error {
	if c.rt.need == open {
		return nil
	}
	token, err := s.authenticate(c)
	if err != nil {
		if errors.Is(err, errToken) {
			c.w.Header().Set("WWW-Authenticate", `Bearer realm="countersign"`)
		}
		return err
	}
	c.token = token
	if grants(token.Role) < c.rt.need {
		return problem(http.StatusForbidden, fmt.Sprintf("the token has the role %s; this needs %s", token.Role, c.rt.need))
	}
	now := s.Now()
	if r := s.limiter(token.ID).ReserveN(now, 1); r.DelayFrom(now) > 0 {
		wait := r.DelayFrom(now)
		r.CancelAt(now)
		c.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		return problem(http.StatusTooManyRequests, fmt.Sprintf("more than %g requests a second with one token", s.RatePerSecond))
	}
	return nil
}

func (s *Server) authenticate(c *call) (store.Token, error) {
	scheme, secret, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(secret, tokenPrefix) || len(c.r.Header.Values("Authorization")) > 1 {
		return store.Token{}, errToken
	}
	hash, now := HashToken(secret), s.Now()
	s.tokens.mu.Lock()
	known, ok := s.tokens.known[hash]
	drops := s.tokens.drops
	s.tokens.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.Token, nil
	}
	token, err := s.Store.TokenByHash(c.r.Context(), hash)
	if errors.Is(err, store.ErrNotFound) || err == nil && token.Revoked != 0 {
		return store.Token{}, errToken
	}
	if err != nil {
		return store.Token{}, fmt.Errorf("looking up the token: %w", err)
	}
	s.tokens.mu.Lock()
	if drops == s.tokens.drops {
		s.tokens.known[hash] = knownToken{token, now.Add(tokenTTL)}
	}
	s.tokens.mu.Unlock()
	return token, nil
}

func (s *Server) limiter(id string) *rate.Limiter {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	l := s.tokens.limits[id]
	if l == nil {
		l = rate.NewLimiter(rate.Limit(s.RatePerSecond), max(1, int(s.RatePerSecond)))
		s.tokens.limits[id] = l
	}
	return l
}

func (t *tokens) init() {
	t.known = map[[sha256.Size]byte]knownToken{}
	t.limits = map[string]*rate.Limiter{}
}
