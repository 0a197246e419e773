package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Approval is one token's consent.
type Approval struct {
	Token, Name string // the token, and its name at that time
	At          Millis
	Reason      string // may be empty
}

const (
	// A row approves its subject as it was then. shown is a digest of what was approved.
	approvalsSQL = `SELECT token, name, at, reason FROM approvals WHERE about = $1 AND shown = $2 ORDER BY at, id`

	// An approval with another digest is replaced, because its subject has changed since.
	addApprovalSQL = `
INSERT INTO approvals (id, about, token, name, at, shown, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET about = excluded.about, token = excluded.token, name = excluded.name, at = excluded.at,
	shown = excluded.shown, reason = excluded.reason`
)

const dropApprovalsSQL = `DELETE FROM approvals WHERE about = $1`

// DropApprovals returns the statement that deletes the approvals of a purged subject. The log still names who gave
// them.
func DropApprovals(about string) Statement {
	return Statement{SQL: dropApprovalsSQL, Args: []any{about}}
}

// Digest returns the digest of what is approved. JSON must be able to write the values.
func Digest(of ...any) string {
	b, err := json.Marshal(of)
	if err != nil {
		panic(fmt.Sprintf("what is approved has no JSON: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Approvals returns the approvals of a subject in its present state, the oldest first. digest identifies that state.
// An approval of another state of the subject, such as from before a restore, does not count.
func Approvals(ctx context.Context, q Querier, about, digest string) ([]Approval, error) {
	return List(ctx, q, approvalsSQL, []any{about, digest}, func(r Rows) (a Approval, err error) {
		err = r.Scan(&a.Token, &a.Name, &a.At, &a.Reason)
		return a, err
	})
}

// PutApproval stores an approval of a subject whose row t has locked. It replaces an earlier approval by the same
// token.
func PutApproval(ctx context.Context, t *Tx, about, digest string, a Approval) error {
	if err := CheckTexts("reason", a.Reason, "token", a.Token, "name", a.Name); err != nil {
		return err
	}
	id := about + " " + a.Token
	_, err := t.Exec(ctx, addApprovalSQL, id, about, a.Token, a.Name, int64(a.At), digest, a.Reason)
	return err
}
