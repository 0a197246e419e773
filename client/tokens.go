package client

import (
	"context"
	"log/slog"
	"net/http"
)

// Role is what a token may do.
type Role string

// The roles. Each includes the rights of the roles above it that its end has.
const (
	RoleViewer   Role = "viewer"   // reads
	RoleIngest   Role = "ingest"   // the wallet core, at the service: adds deposits and withdrawals, releases them, reports outcomes
	RoleApp      Role = "app"      // the merchant's application, at the gateway: adds and cancels orders, acknowledges feeds
	RoleOperator Role = "operator" // everything
)

// NewToken is a token to be made.
type NewToken struct {
	Name string `json:"name" minLength:"1" maxLength:"200" doc:"name of the token's owner, for people, 1 to 200 characters"`
	Role Role   `json:"role" doc:"the rights of the token"`
}

// Token is an API token without its secret.
type Token struct {
	ID      string `json:"id" doc:"identifies the token; it is not the secret"`
	Name    string `json:"name" doc:"name of the token's owner"`
	Role    Role   `json:"role" doc:"the rights of the token"`
	Created Time   `json:"created" doc:"when it was made"`
	Revoked Time   `json:"revoked,omitzero" doc:"when it was revoked; absent: it is valid"`
}

// Self is the token of the caller.
type Self struct {
	Token
	May []string `json:"may" nullable:"false" doc:"operationIds of this document that the token's role allows, without those that need no token"`
}

// CreatedToken is a new token with its secret, which is shown only once.
type CreatedToken struct {
	Token
	Secret Secret `json:"token" doc:"the secret, to be sent as Authorization: Bearer; shown only once"`
}

// LogValue keeps the secret out of a log.
func (t CreatedToken) LogValue() slog.Value { return slog.StringValue("token " + t.ID) }

// Tokens is the answer of the list of tokens.
type Tokens struct {
	Tokens []Token `json:"tokens" nullable:"false" doc:"all tokens, revoked ones too"`
}

// CreateToken makes a token. Its secret is shown only once.
func (c *caller) CreateToken(ctx context.Context, t NewToken) (CreatedToken, error) {
	return ask[CreatedToken](ctx, c, http.MethodPost, "/v1/tokens", t)
}

// Tokens lists all tokens, revoked ones too.
func (c *caller) Tokens(ctx context.Context) ([]Token, error) {
	out, err := ask[Tokens](ctx, c, http.MethodGet, "/v1/tokens", nil)
	return out.Tokens, err
}

// Self gives the token of the caller and what it may do.
func (c *caller) Self(ctx context.Context) (Self, error) {
	return ask[Self](ctx, c, http.MethodGet, "/v1/tokens/self", nil)
}

// RevokeToken revokes a token: at once on the node that is asked, within a second
// on the others. The last operator token cannot be revoked (ErrConflict).
func (c *caller) RevokeToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, pathOf("tokens", id, ""), nil, nil)
}
