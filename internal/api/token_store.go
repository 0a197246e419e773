package api

import (
	"context"
	"encoding/hex"
	"fmt"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
)

// Token is an API token. Only a hash of its secret is kept.
type Token struct {
	ID        string
	Name      string
	Role      client.Role
	Merchants string // ids of those that it is bound to, with a space between; empty: all
	Maker     string // id of the token that made it; empty: none did
	// Root is where the token comes from: its own id if it was made while there was no
	// approver, else the Root of the token that proposed it. Whoever holds a token may
	// hold all of the same Root, so these do not decide on what each other propose.
	Root    string
	Created db.Millis
	Expires db.Millis // 0: never
	Revoked db.Millis // 0: it was not
	Hourly  int64     // how many deposits it may add an hour; 0: no bound

	Fingerprint string // the beginning of the hash, of a stored token
}

// Tokens is the table of tokens in an end's database. It is a TokenStore.
type Tokens struct{ d *db.DB }

// NewTokens gives the tokens in d.
func NewTokens(d *db.DB) *Tokens { return &Tokens{d} }

const tokenColumns = `id, name, role, merchants, maker, root, created, expires, revoked, hourly, hash`

func (t *Token) scan(r db.Rows) error {
	var hash []byte
	err := r.Scan(&t.ID, &t.Name, &t.Role, &t.Merchants, &t.Maker, &t.Root, &t.Created, &t.Expires, &t.Revoked, &t.Hourly, &hash)
	t.Fingerprint = hex.EncodeToString(hash[:min(8, len(hash))])
	return err
}

const createTokenSQL = `
INSERT INTO tokens (id, name, role, merchants, maker, root, created, expires, hourly, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING`

// Create keeps a token by the hash of its secret. If the id or the hash is in use,
// the error is a *db.ConflictError.
func (k *Tokens) Create(ctx context.Context, token Token, hash [32]byte) error {
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error { return CreateToken(ctx, t, token, hash) })
}

// CreateToken is Tokens.Create as part of t.
func CreateToken(ctx context.Context, t *db.Tx, token Token, hash [32]byte) error {
	if token.Role == "" || db.CheckText("role", string(token.Role)) != nil {
		return fmt.Errorf("role is %w: %q", db.ErrInvalid, token.Role)
	}
	if err := db.CheckIdentifier("id", token.ID); err != nil || token.ID == "" {
		return fmt.Errorf("token id is %w", db.ErrInvalid)
	}
	if err := db.CheckText("name", token.Name); err != nil {
		return err
	}
	n, err := t.Exec(ctx, createTokenSQL, token.ID, token.Name, string(token.Role), token.Merchants, token.Maker, token.Root,
		int64(token.Created), int64(token.Expires), token.Hourly, hash[:])
	if err == nil && n == 0 {
		err = &db.ConflictError{Member: "id", Reason: "is in use by another token"}
	}
	if err != nil {
		return err
	}
	return audit.Add(ctx, t, audit.Record{Kind: recordTokenCreated, At: token.Created, About: []string{token.ID}, Data: tokenRecord{token.Name, token.Role, token.BoundTo(), token.Maker, token.Expires, token.Hourly}})
}

const tokenByHashSQL = `SELECT ` + tokenColumns + ` FROM tokens WHERE hash = $1`

// ByHash gives the token with this hash, also a revoked one; db.ErrNotFound if there is
// none.
func (k *Tokens) ByHash(ctx context.Context, hash [32]byte) (Token, error) {
	return findToken(ctx, k.d, tokenByHashSQL, hash[:])
}

const tokenByIDSQL = `SELECT ` + tokenColumns + ` FROM tokens WHERE id = $1`

// ByID gives the token with this id, also a revoked one; db.ErrNotFound if there is
// none.
func (k *Tokens) ByID(ctx context.Context, id string) (Token, error) {
	if db.CheckText("", id) != nil {
		return Token{}, db.ErrNotFound
	}
	return findToken(ctx, k.d, tokenByIDSQL, id)
}

// FindToken is ByID as part of a transaction.
func FindToken(ctx context.Context, q db.Querier, id string) (Token, error) {
	return findToken(ctx, q, tokenByIDSQL, id)
}

// ComesFrom reports whether whoever holds other may hold t too: t has its origin, or was
// made by it, or by a token that was made by it, and so on.
func ComesFrom(ctx context.Context, q db.Querier, t, other Token) (bool, error) {
	if t.Root == other.Root {
		return true, nil
	}
	for t.Maker != "" {
		if t.Maker == other.ID {
			return true, nil
		}
		var err error
		if t, err = FindToken(ctx, q, t.Maker); err != nil {
			return false, err
		}
	}
	return false, nil
}

const (
	approverExistsSQL        = `SELECT 1 FROM tokens WHERE role = 'approver' AND revoked = 0 AND (expires = 0 OR expires > $1) AND id <> $2 LIMIT 1`
	unboundApproverExistsSQL = `SELECT 1 FROM tokens WHERE role = 'approver' AND revoked = 0 AND (expires = 0 OR expires > $1) AND merchants = '' LIMIT 1`
)

// ApproverExists reports whether there is a valid token of role approver, other than
// the one with the id except.
func ApproverExists(ctx context.Context, q db.Querier, now db.Millis, except string) (bool, error) {
	var is int
	return db.One(ctx, q, approverExistsSQL, []any{int64(now), except}, &is)
}

// UnboundApproverExists reports whether there is one that is bound to no merchant.
func UnboundApproverExists(ctx context.Context, q db.Querier, now db.Millis) (bool, error) {
	var is int
	return db.One(ctx, q, unboundApproverExistsSQL, []any{int64(now)}, &is)
}

func findToken(ctx context.Context, q db.Querier, text string, key any) (token Token, err error) {
	found := false
	err = db.Each(ctx, q, text, []any{key}, func(r db.Rows) error {
		found = true
		return token.scan(r)
	})
	if err == nil && !found {
		err = db.ErrNotFound
	}
	return token, err
}

const listTokensSQL = `SELECT ` + tokenColumns + ` FROM tokens ORDER BY created, id`

// List gives all tokens, revoked ones included, oldest first.
func (k *Tokens) List(ctx context.Context) ([]Token, error) {
	var list []Token
	err := db.Each(ctx, k.d, listTokensSQL, nil, func(r db.Rows) error {
		var t Token
		err := t.scan(r)
		list = append(list, t)
		return err
	})
	return list, err
}

const validHashesSQL = `SELECT hash FROM tokens WHERE revoked = 0`

// Hashes gives the hashes of all valid tokens.
func (k *Tokens) Hashes(ctx context.Context) ([][32]byte, error) {
	var list [][32]byte
	err := db.Each(ctx, k.d, validHashesSQL, nil, func(r db.Rows) error {
		var hash []byte
		err := r.Scan(&hash)
		if err == nil && len(hash) == 32 {
			list = append(list, [32]byte(hash))
		}
		return err
	})
	return list, err
}

const (
	// lockTokensSQL makes revocations wait for each other, on all nodes: two that
	// each saw the other's token valid would revoke both.
	lockTokensSQL = `SELECT id, role, merchants, expires FROM tokens WHERE revoked = 0 ORDER BY id{lock}`

	revokeTokenSQL = `UPDATE tokens SET revoked = CASE WHEN revoked = 0 THEN $2 ELSE revoked END WHERE id = $1`

	hasTokensSQL = `SELECT 1 FROM tokens LIMIT 1`
)

// Revoke ends a token at once. Revoking it again changes nothing. The last valid
// token of the guarded roles that never expires and is bound to no merchant is not
// revoked, whatever other nodes revoke at the same time: that is a *db.ConflictError.
// Nil guards no role.
func (k *Tokens) Revoke(ctx context.Context, id string, now db.Millis, guarded func(client.Role) bool) error {
	if db.CheckText("", id) != nil {
		return db.ErrNotFound
	}
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error { return RevokeToken(ctx, t, id, now, guarded) })
}

// RevokeToken is Tokens.Revoke as part of t.
func RevokeToken(ctx context.Context, t *db.Tx, id string, now db.Millis, guarded func(client.Role) bool) error {
	is, others, valid := false, false, false
	err := db.Each(ctx, t, lockTokensSQL, nil, func(r db.Rows) error {
		var v Token
		if err := r.Scan(&v.ID, &v.Role, &v.Merchants, &v.Expires); err != nil {
			return err
		}
		valid = valid || v.ID == id
		if guarded != nil && guarded(v.Role) && v.Merchants == "" && v.Expires == 0 {
			is, others = is || v.ID == id, others || v.ID != id
		}
		return nil
	})
	if err != nil {
		return err
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
	return audit.Add(ctx, t, audit.Record{Kind: recordTokenRevoked, At: now, About: []string{id}})
}

// Any reports whether any token was ever made.
func (k *Tokens) Any(ctx context.Context) (bool, error) {
	var is int
	return db.One(ctx, k.d, hasTokensSQL, nil, &is)
}
