package store

import (
	"context"
	"fmt"
)

const tokenColumns = `id, name, role, created, revoked`

func (t *Token) scan(r rows) error { return r.Scan(&t.ID, &t.Name, &t.Role, &t.Created, &t.Revoked) }

const createTokenSQL = `
INSERT INTO tokens (id, name, role, hash, created) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`

// CreateToken keeps a token by the hash of its secret. An id, or a hash, that
// is taken is a *ConflictError.
func (s *Store) CreateToken(ctx context.Context, token Token, hash [32]byte) error {
	switch token.Role {
	case RoleViewer, RoleIngest, RoleApp, RoleOperator:
	default:
		return fmt.Errorf("role is %w: %q", ErrInvalid, token.Role)
	}
	if err := checkIdentifier("id", token.ID); err != nil || token.ID == "" {
		return fmt.Errorf("token id is %w", ErrInvalid)
	}
	if err := checkText("name", token.Name); err != nil {
		return err
	}
	return s.db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, createTokenSQL, token.ID, token.Name, string(token.Role), hash[:], int64(token.Created))
		if err == nil && n == 0 {
			err = &ConflictError{Member: "id", Reason: "is taken by another token"}
		}
		return err
	})
}

const tokenByHashSQL = `SELECT ` + tokenColumns + ` FROM tokens WHERE hash = $1 AND revoked = 0`

// TokenByHash gives the token whose secret has this hash; ErrNotFound where
// none has or it is revoked.
func (s *Store) TokenByHash(ctx context.Context, hash [32]byte) (Token, error) {
	var token Token
	found := false
	err := each(ctx, s.db, tokenByHashSQL, []any{hash[:]}, func(r rows) error {
		found = true
		return token.scan(r)
	})
	if err == nil && !found {
		err = ErrNotFound
	}
	return token, err
}

const listTokensSQL = `SELECT ` + tokenColumns + ` FROM tokens ORDER BY created, id`

// Tokens lists all tokens, revoked ones included, oldest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	var list []Token
	err := each(ctx, s.db, listTokensSQL, nil, func(r rows) error {
		var t Token
		err := t.scan(r)
		list = append(list, t)
		return err
	})
	return list, err
}

const (
	revokeTokenSQL = `UPDATE tokens SET revoked = CASE WHEN revoked = 0 THEN $2 ELSE revoked END WHERE id = $1`

	hasTokensSQL = `SELECT 1 FROM tokens LIMIT 1`
)

// RevokeToken ends a token at once. Revoking it again changes nothing.
func (s *Store) RevokeToken(ctx context.Context, id string, now Millis) error {
	if checkText("", id) != nil {
		return ErrNotFound
	}
	return s.db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, revokeTokenSQL, id, int64(now))
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
}

// HasTokens reports whether any token was ever made.
func (s *Store) HasTokens(ctx context.Context) (bool, error) {
	var is int
	return one(ctx, s.db, hasTokensSQL, nil, &is)
}
