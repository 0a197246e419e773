package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"countersign/internal/store"
)

// access is what a route asks of its caller.
type access int

const (
	open access = iota // no token
	viewer
	app
	operator
)

func (a access) String() string { return [...]string{"none", "viewer", "app", "operator"}[a] }

// grants turns a role into the access that it gives. A role that is not known
// gives none that a route asks for.
func grants(r store.Role) access {
	switch r {
	case store.RoleViewer:
		return viewer
	case store.RoleApp:
		return app
	case store.RoleOperator:
		return operator
	}
	return open
}

const tokenPrefix = "cst_"

// mintToken makes a token: secret is for its owner, hash is what the store
// keeps.
func mintToken() (secret Secret, hash [sha256.Size]byte) {
	text := tokenPrefix + randomText(32)
	return Secret(text), sha256.Sum256([]byte(text))
}

// randomText gives n random bytes as text. The source never fails.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// tokenTTL bounds for how long another process still takes a revoked token.
const tokenTTL = time.Second

// tokens remembers valid tokens for tokenTTL. Tokens that are not valid leave
// no trace, so guessing fills nothing.
type tokens struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]knownToken
	drops int // grows with forget; a look-up from before it is not kept
}

type knownToken struct {
	store.Token
	until time.Time
}

func (t *tokens) init() { t.known = map[[sha256.Size]byte]knownToken{} }

// forget drops all tokens, so that a revocation holds at once in this process.
func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.known)
	t.drops++
}

// admit turns away a caller without a valid token or without the role that the
// route needs.
func (a *api) admit(c *call) error {
	if c.route.need == open {
		return nil
	}
	token, err := a.authenticate(c)
	if err != nil {
		if errors.Is(err, errToken) {
			c.w.Header().Set("WWW-Authenticate", `Bearer realm="countersign"`)
		}
		return err
	}
	c.token = token
	if grants(token.Role) < c.route.need {
		return problem(http.StatusForbidden, fmt.Sprintf("the token has the role %s; this needs %s", token.Role, c.route.need))
	}
	return nil
}

func (a *api) authenticate(c *call) (store.Token, error) {
	scheme, secret, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(secret, tokenPrefix) || len(c.r.Header.Values("Authorization")) > 1 {
		return store.Token{}, errToken
	}
	hash, now := sha256.Sum256([]byte(secret)), a.c.Now()
	a.tokens.mu.Lock()
	known, ok := a.tokens.known[hash]
	drops := a.tokens.drops
	a.tokens.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.Token, nil
	}
	token, err := a.c.Store.TokenByHash(c.r.Context(), hash)
	if errors.Is(err, store.ErrNotFound) || err == nil && token.Revoked != 0 {
		return store.Token{}, errToken
	}
	if err != nil {
		return store.Token{}, fmt.Errorf("looking up the token: %w", err)
	}
	a.tokens.mu.Lock()
	if drops == a.tokens.drops {
		a.tokens.known[hash] = knownToken{token, now.Add(tokenTTL)}
	}
	a.tokens.mu.Unlock()
	return token, nil
}

func (a *api) createToken(c *call, in NewToken) (any, error) {
	secret, hash := mintToken()
	t := store.Token{ID: "tok_" + randomText(9), Name: in.Name, Role: store.Role(in.Role), Created: c.now}
	if err := a.c.Store.CreateToken(c.r.Context(), t, hash); err != nil {
		return nil, err
	}
	return CreatedToken{tokenOf(t), secret}, nil
}

func (a *api) listTokens(c *call, _ none) (any, error) {
	out := TokenList{Tokens: []TokenEntry{}}
	list, err := a.c.Store.Tokens(c.r.Context())
	for _, t := range list {
		out.Tokens = append(out.Tokens, tokenOf(t))
	}
	return out, err
}

// revokeToken refuses to take the last operator's token away: nobody could
// make another.
func (a *api) revokeToken(c *call, _ none) (any, error) {
	id := c.r.PathValue("id")
	list, err := a.c.Store.Tokens(c.r.Context())
	if err != nil {
		return nil, err
	}
	known, operators := false, 0
	for _, t := range list {
		known = known || t.ID == id
		if t.ID != id && t.Role == store.RoleOperator && t.Revoked == 0 {
			operators++
		}
	}
	switch {
	case !known:
		return nil, store.ErrNotFound
	case operators == 0:
		return nil, problem(http.StatusConflict, "there is no other operator token; make one first")
	}
	defer a.tokens.forget()
	return nil, a.c.Store.RevokeToken(c.r.Context(), id, c.now)
}

func tokenOf(t store.Token) TokenEntry {
	return TokenEntry{ID: t.ID, Name: t.Name, Role: string(t.Role), Created: timeOf(t.Created), Revoked: timeOf(t.Revoked)}
}
