package jsonapi

import (
	"context"
	"fmt"

	"countersign/client"
	"countersign/internal/audit"
	"countersign/internal/db"
)

// Token is an API token. Only a hash of its secret is kept.
type Token struct {
	ID      string
	Name    string
	Role    client.Role
	Created db.Millis
	Revoked db.Millis // 0: valid
}

// Tokens is the table of tokens in an end's database. It is a TokenStore.
type Tokens struct{ d *db.DB }

// NewTokens gives the tokens in d.
func NewTokens(d *db.DB) *Tokens { return &Tokens{d} }

const tokenColumns = `id, name, role, created, revoked`

func (t *Token) scan(r db.Rows) error { return r.Scan(&t.ID, &t.Name, &t.Role, &t.Created, &t.Revoked) }

const createTokenSQL = `
INSERT INTO tokens (id, name, role, hash, created) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`

// Create keeps a token by the hash of its secret. If the id or the hash is in use,
// the error is a *db.ConflictError.
func (k *Tokens) Create(ctx context.Context, token Token, hash [32]byte) error {
	if token.Role == "" || db.CheckText("role", string(token.Role)) != nil {
		return fmt.Errorf("role is %w: %q", db.ErrInvalid, token.Role)
	}
	if err := db.CheckIdentifier("id", token.ID); err != nil || token.ID == "" {
		return fmt.Errorf("token id is %w", db.ErrInvalid)
	}
	if err := db.CheckText("name", token.Name); err != nil {
		return err
	}
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		n, err := t.Exec(ctx, createTokenSQL, token.ID, token.Name, string(token.Role), hash[:], int64(token.Created))
		if err == nil && n == 0 {
			err = &db.ConflictError{Member: "id", Reason: "is in use by another token"}
		}
		if err != nil {
			return err
		}
		return audit.Add(ctx, t, audit.Record{Kind: recordTokenCreated, At: token.Created, About: []string{token.ID}, Data: tokenRecord{token.Name, token.Role}})
	})
}

const tokenByHashSQL = `SELECT ` + tokenColumns + ` FROM tokens WHERE hash = $1 AND revoked = 0`

// ByHash gives the token with this hash; db.ErrNotFound if there is none or it is
// revoked.
func (k *Tokens) ByHash(ctx context.Context, hash [32]byte) (Token, error) {
	var token Token
	found := false
	err := db.Each(ctx, k.d, tokenByHashSQL, []any{hash[:]}, func(r db.Rows) error {
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
	lockTokensSQL = `SELECT id, role FROM tokens WHERE revoked = 0 ORDER BY id{lock}`

	revokeTokenSQL = `UPDATE tokens SET revoked = CASE WHEN revoked = 0 THEN $2 ELSE revoked END WHERE id = $1`

	hasTokensSQL = `SELECT 1 FROM tokens LIMIT 1`
)

// Revoke ends a token at once. Revoking it again changes nothing. The last valid
// token of the guarded roles is not revoked, whatever other nodes revoke at the same
// time: that is a *db.ConflictError. Nil guards no role.
func (k *Tokens) Revoke(ctx context.Context, id string, now db.Millis, guarded func(client.Role) bool) error {
	if db.CheckText("", id) != nil {
		return db.ErrNotFound
	}
	return k.d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		is, others, valid := false, false, false
		err := db.Each(ctx, t, lockTokensSQL, nil, func(r db.Rows) error {
			var other string
			var role client.Role
			if err := r.Scan(&other, &role); err != nil {
				return err
			}
			valid = valid || other == id
			if guarded != nil && guarded(role) {
				is, others = is || other == id, others || other != id
			}
			return nil
		})
		if err != nil {
			return err
		}
		if is && !others {
			return &db.ConflictError{Reason: "this is the last operator token; make another first"}
		}
		n, err := t.Exec(ctx, revokeTokenSQL, id, int64(now))
		if err == nil && n == 0 {
			err = db.ErrNotFound
		}
		if err != nil || !valid {
			return err
		}
		return audit.Add(ctx, t, audit.Record{Kind: recordTokenRevoked, At: now, About: []string{id}})
	})
}

// Any reports whether any token was ever made.
func (k *Tokens) Any(ctx context.Context) (bool, error) {
	var is int
	return db.One(ctx, k.d, hasTokensSQL, nil, &is)
}
