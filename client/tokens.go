package client

import (
	"context"
	"log/slog"
	"net/http"
)

// Role is what a token may do.
type Role string

// The roles. Each route names those that may call it; the OpenAPI document shows them
// as x-roles, docs/provider/control.md as a table.
const (
	RoleViewer   Role = "viewer"
	RoleIngest   Role = "ingest"
	RoleCore     Role = "core"
	RoleMerchant Role = "merchant"
	RoleOperator Role = "operator"
	RoleApp      Role = "app"
	RoleApprover Role = "approver"
	RoleAdmin    Role = "admin"
)

var _ = newWords(words[Role]{
	{is: RoleViewer, at: AtBoth, means: "It reads."},
	{is: RoleIngest, at: AtService, means: "It adds deposits."},
	{is: RoleCore, at: AtService, means: "It is the wallet core: it does what ingest does, adds changes of addresses, adds, cancels, releases and ends withdrawals, and reads decisions."},
	{is: RoleMerchant, at: AtService, means: "It is a merchant's own: it reads the merchant's callbacks with their attempts, has one sent again, and sends a test deposit."},
	{is: RoleOperator, at: AtService, means: "It makes merchants, proposes changes, pauses, resends and acknowledges alarms."},
	{is: RoleApp, at: AtGateway, means: "It is the merchant's application: orders and feeds."},
	{is: RoleApprover, at: AtBoth, means: "It decides on what others propose, and at the gateway on orders and held deposits."},
	{is: RoleAdmin, at: AtBoth, means: "It may do everything. The first token has it."},
})

// NewToken is a token to be made.
type NewToken struct {
	Name      string   `json:"name" minLength:"1" maxLength:"200" doc:"name of the token's owner, for people, 1 to 200 characters"`
	Role      Role     `json:"role" doc:"the rights of the token"`
	Merchants []string `json:"merchants,omitempty" minItems:"1" maxItems:"100" nullable:"false" doc:"ids of the merchants that the token is bound to, 1 to 100: for it there are no others. Absent: all. Only at the service: a gateway has one merchant"`
	Expires   Time     `json:"expires,omitzero" doc:"when the token ends, at least a minute from now; absent: never"`
	Hourly    int64    `json:"depositsPerHour,omitempty" minimum:"1" maximum:"1000000000" doc:"how many deposits the token may add in each hour of UTC, 1 to 1,000,000,000, over all nodes; repetitions do not count. Only with role ingest. Absent: no limit"`
}

// Token is an API token without its secret.
type Token struct {
	ID          string   `json:"id" doc:"identifies the token; it is not the secret"`
	Name        string   `json:"name" doc:"name of the token's owner"`
	Role        Role     `json:"role" doc:"the rights of the token"`
	Merchants   []string `json:"merchants,omitempty" nullable:"false" doc:"ids of the merchants that it is bound to; absent: all"`
	Subject     string   `json:"subject,omitempty" doc:"of a person who signs in with the identity provider: oidc: and the provider's id of the person; absent: it is a token with a secret"`
	MadeBy      string   `json:"madeBy,omitempty" doc:"id of the token that made it; absent: the daemon's first start"`
	Fingerprint string   `json:"fingerprint,omitempty" doc:"the beginning of the SHA-256 of its secret, in hexadecimal digits; absent in the answer that shows the secret"`
	Created     Time     `json:"created" doc:"when it was made"`
	Expires     Time     `json:"expires,omitzero" doc:"when it ends; absent: never"`
	Hourly      int64    `json:"depositsPerHour,omitempty" doc:"how many deposits it may add in each hour; absent: no limit"`
	Revoked     Time     `json:"revoked,omitzero" doc:"when it was revoked; absent: it was not"`
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

	Task string `json:"task,omitempty" doc:"id of the task that an approver must approve before the token is valid; absent: it is valid"`
}

// LogValue keeps the secret out of a log.
func (t CreatedToken) LogValue() slog.Value { return slog.StringValue("token " + t.ID) }

// CreateToken makes a token. Its secret is shown only once. Where the answer has a
// Task, the token is not valid before an approver has approved it.
func (c *Common) CreateToken(ctx context.Context, t NewToken) (CreatedToken, error) {
	return Post[CreatedToken](ctx, c, "/v1/tokens", t)
}

// Self returns the token of the caller and what it may do.
func (c *Common) Self(ctx context.Context) (Self, error) {
	return Get[Self](ctx, c, "/v1/tokens/self")
}

// RevokedToken is a token after its revocation.
type RevokedToken struct {
	Token
	Task string `json:"task,omitempty" doc:"id of the task that another approver must approve before the token, which is an approver's, is revoked; absent: it is"`
}

// RevokeToken revokes a token: at once on the node that is asked, within a second on the others. The last admin's token
// cannot be revoked (ErrConflict). Where the answer has a Task, the token stays valid until another approver approves it.
func (c *Common) RevokeToken(ctx context.Context, id string) (RevokedToken, error) {
	return ask[RevokedToken](ctx, c, http.MethodDelete, Path("tokens", id), nil)
}
