package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// Token is an API token. Only a hash of its secret is kept.
type Token struct {
	ID        string
	Name      string
	Role      client.Role
	Merchants string // ids of the merchants it is bound to, separated by spaces; empty: all
	Maker     string // id of the token that made it; empty: none did
	// Root is the token's origin: its own id if it was made while there was no approver, otherwise the Root of the
	// token that proposed it. Whoever holds a token may hold all tokens of the same Root. Such tokens therefore do
	// not decide on each other's proposals.
	Root    string
	Created db.Millis
	Expires db.Millis // 0: never
	Revoked db.Millis // 0: not revoked
	Hourly  int64     // the most deposits it may add in an hour; 0: no limit
	Subject string    // a person at the identity provider, as "ISSUER ID"; empty: a token

	Fingerprint string // the beginning of the hash; set for a stored token

	signedIn db.Millis // when the session's person signed in at the provider; 0: it did not say
}

// Tokens is the table of tokens in an end's database. It is a TokenStore.
type Tokens struct {
	d      *db.DB
	people *identities // nil: people have tokens
}

// NewTokens returns the tokens in d.
func NewTokens(d *db.DB) *Tokens { return &Tokens{d: d} }

const readTokensSQL = `
SELECT id, name, role, merchants, maker, root, created, expires, revoked, hourly, subject, hash FROM tokens`

// readTokens returns the tokens that the condition where selects.
func readTokens(ctx context.Context, q db.Querier, where string, args ...any) ([]Token, error) {
	return db.List(ctx, q, readTokensSQL+where, args, func(r db.Rows) (t Token, err error) {
		var hash []byte
		err = r.Scan(&t.ID, &t.Name, &t.Role, &t.Merchants, &t.Maker, &t.Root, &t.Created, &t.Expires, &t.Revoked,
			&t.Hourly, &t.Subject, &hash)
		t.Fingerprint = fingerprintOf(hash)
		return t, err
	})
}

func fingerprintOf(hash []byte) string { return hex.EncodeToString(hash[:min(8, len(hash))]) }

const createTokenSQL = `
INSERT INTO tokens (id, name, role, merchants, maker, root, created, expires, hourly, hash, subject, approver)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, CASE WHEN $3 = 'approver' THEN 1 ELSE 0 END) ON CONFLICT DO NOTHING`

// Create stores a token under the hash of its secret. It returns a *db.ConflictError if the id or the hash is in use.
func (k *Tokens) Create(ctx context.Context, token Token, hash [32]byte) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error { return createToken(ctx, t, token, hash) })
}

// createToken is Tokens.Create in the transaction t.
func createToken(ctx context.Context, t *db.Tx, token Token, hash [32]byte) error {
	if token.Role == "" || db.CheckText("role", string(token.Role)) != nil {
		return fmt.Errorf("role is %w: %q", db.ErrInvalid, token.Role)
	}
	if err := db.CheckIdentifier("id", token.ID); err != nil || token.ID == "" {
		return fmt.Errorf("token id is %w", db.ErrInvalid)
	}
	if err := db.CheckText("name", token.Name); err != nil {
		return err
	}
	n, err := t.Exec(ctx, createTokenSQL, token.ID, token.Name, string(token.Role), token.Merchants, token.Maker,
		token.Root, int64(token.Created), int64(token.Expires), token.Hourly, hash[:], token.Subject)
	if err == nil && n == 0 {
		err = &db.ConflictError{Member: "id", Reason: "is in use by another token"}
	}
	if err != nil {
		return err
	}
	return journal.Add(ctx, t, journal.Record{Kind: recordTokenCreated, At: token.Created, About: []string{token.ID},
		Data: tokenRecord{token.Name, token.Role, token.BoundTo(), token.Maker, int64(token.Expires), token.Hourly}})
}

// ByHash returns the token with this hash, even if revoked. It returns db.ErrNotFound if there is none.
func (k *Tokens) ByHash(ctx context.Context, hash [32]byte) (Token, error) {
	return findToken(ctx, k.d, ` WHERE hash = $1`, hash[:])
}

// FindToken returns the token with this id, even if revoked. It returns db.ErrNotFound if there is none.
func FindToken(ctx context.Context, q db.Querier, id string) (Token, error) {
	if db.CheckText("", id) != nil {
		return Token{}, db.ErrNotFound
	}
	return findToken(ctx, q, ` WHERE id = $1`, id)
}

func findToken(ctx context.Context, q db.Querier, where string, key any) (Token, error) {
	list, err := readTokens(ctx, q, where, key)
	if err != nil || len(list) == 0 {
		return Token{}, cmp.Or(err, db.ErrNotFound)
	}
	return list[0], nil
}

// List returns all tokens, revoked ones included, oldest first.
func (k *Tokens) List(ctx context.Context) ([]Token, error) {
	return readTokens(ctx, k.d, ` ORDER BY created, id`)
}

const revokeTokenSQL = `UPDATE tokens SET revoked = CASE WHEN revoked = 0 THEN $2 ELSE revoked END WHERE id = $1`

// Revoke revokes a token at once. Revoking it again changes nothing. guarded says which roles must keep a token; nil
// guards none. Revoke returns a *db.ConflictError for the last valid token of the guarded roles that never expires
// and is bound to no merchant, even if other nodes revoke tokens at the same time.
func (k *Tokens) Revoke(ctx context.Context, id string, now db.Millis, guarded func(client.Role) bool) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error { return revokeToken(ctx, t, id, now, guarded) })
}

// revokeToken is Tokens.Revoke in the transaction t.
func revokeToken(ctx context.Context, t *db.Tx, id string, now db.Millis, guarded func(client.Role) bool) error {
	is, others, valid := false, false, false
	// Revocations run one after another on all nodes. Otherwise two that each saw the other's token valid would
	// revoke both.
	list, err := readTokens(ctx, t, ` WHERE revoked = 0 ORDER BY id{lock}`)
	if err != nil {
		return err
	}
	for _, v := range list {
		valid = valid || v.ID == id
		// A person does not count: one can sign in only while the provider works.
		if guarded != nil && guarded(v.Role) && v.Merchants == "" && v.Expires == 0 && v.Subject == "" {
			is, others = is || v.ID == id, others || v.ID != id
		}
	}
	if is && !others {
		return &db.ConflictError{Reason: "this is the last admin's token that is for all merchants and never expires; make another first"}
	}
	n, err := t.Exec(ctx, revokeTokenSQL, id, int64(now))
	if err == nil && n == 0 {
		err = db.ErrNotFound
	}
	if err != nil || !valid {
		return err
	}
	return journal.Add(ctx, t, journal.Record{Kind: recordTokenRevoked, At: now, About: []string{id}})
}

// The beginnings of the secrets of a token, and of a session of a person.
const (
	tokenPrefix    = "cst_"
	providerPrefix = "cso_"
)

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

var (
	errToken   = NewProblem(http.StatusUnauthorized, "a valid token is needed: Authorization: Bearer TOKEN")
	errRevoked = NewProblem(http.StatusUnauthorized, "the token was revoked")
	errExpired = NewProblem(http.StatusUnauthorized, "the token has expired")
)

// Sees reports whether the token is bound to no merchant or to this one.
func (t Token) Sees(merchant string) bool {
	return t.Merchants == "" || slices.Contains(t.BoundTo(), merchant)
}

// BoundTo returns the ids of the merchants that the token is bound to. It returns nil if the token is not bound.
func (t Token) BoundTo() []string {
	if t.Merchants == "" {
		return nil
	}
	return strings.Split(t.Merchants, " ")
}

// Within reports whether t is bound only to merchants that other may see.
func (t Token) Within(other Token) bool {
	return other.Merchants == "" || t.Merchants != "" &&
		!slices.ContainsFunc(t.BoundTo(), func(m string) bool { return !other.Sees(m) })
}

// ShownToken returns a token as the API shows it.
func ShownToken(t Token) client.Token {
	return client.Token{ID: t.ID, Name: t.Name, Role: t.Role, Merchants: t.BoundTo(), MadeBy: t.Maker,
		Fingerprint: t.Fingerprint, Created: TimeOf(t.Created), Expires: TimeOf(t.Expires), Revoked: TimeOf(t.Revoked),
		Hourly: t.Hourly, Subject: t.shownSubject()}
}

// shownSubject returns the person of a token as the API and the audit log show it. It returns "" for a token that no
// sign-in made, which a program has, or somebody to whom it was given.
func (t Token) shownSubject() string {
	_, sub, _ := strings.Cut(t.Subject, " ")
	if sub == "" {
		return ""
	}
	return "oidc:" + sub
}

// The kinds of records about tokens.
const (
	recordTokenCreated = "token.created"
	recordTokenRevoked = "token.revoked"
)

// tokenRecord is the data of a record about a token.
type tokenRecord struct {
	Name      string      `json:"name,omitempty"`
	Role      client.Role `json:"role,omitempty"`
	Merchants []string    `json:"merchants,omitempty"`
	Maker     string      `json:"maker,omitempty"`
	Expires   int64       `json:"expires,omitempty"`
	Hourly    int64       `json:"depositsPerHour,omitempty"`
}

// actorOf returns the holder of a token.
func actorOf(t Token) journal.Actor {
	return journal.Actor{Token: t.ID, Subject: t.shownSubject(), Name: t.Name, Role: string(t.Role)}
}
