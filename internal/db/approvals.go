package db

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Approval is what a token said yes to.
type Approval struct {
	Token, Name string // the token, and its name then
	At          Millis
	Reason      string // may be empty
}

// approvalRows is the table of approvals. A row that somebody wrote past the program approves
// nothing, and neither does one that was moved to another thing: the MAC covers what it is about,
// and a digest of what was approved.
var approvalRows = Guarded{Name: "approvals", Key: "id", Columns: `id, about, token, name, at, shown, reason`}

var approvalsSQL = approvalRows.Select() + `WHERE about = $1 ORDER BY at, id`

const addApprovalSQL = `
INSERT INTO approvals (id, about, token, name, at, shown, reason, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET about = excluded.about, token = excluded.token, name = excluded.name, at = excluded.at,
	shown = excluded.shown, reason = excluded.reason, mac = excluded.mac`

const dropApprovalsSQL = `DELETE FROM approvals WHERE about = $1`

// DropApprovals deletes the approvals of a thing that is purged. The log keeps who gave them.
func DropApprovals(about string) Statement {
	return Statement{SQL: dropApprovalsSQL, Args: []any{about}}
}

// Digest is the digest of what is approved, of values that JSON can write.
func Digest(of ...any) string {
	b, err := json.Marshal(of)
	if err != nil {
		panic(fmt.Sprintf("what is approved has no JSON: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Approvals gives the approvals of a thing as it is now, by its digest, the first first. One of a
// thing that was something else then, such as before a restore, is none of it.
func Approvals(ctx context.Context, q Querier, about, digest string) ([]Approval, error) {
	var list []Approval
	look := approvalRows.Reader(q)
	err := Each(ctx, q, approvalsSQL, []any{about}, func(r Rows) error {
		var id, of, shown string
		var a Approval
		genuine, err := look.Scan(r, &id, &of, &a.Token, &a.Name, &a.At, &shown, &a.Reason)
		if err == nil && genuine && shown == digest {
			list = append(list, a)
		}
		return err
	})
	slices.SortStableFunc(list, func(a, b Approval) int { return cmp.Compare(a.At, b.At) })
	return list, err
}

// PutApproval keeps an approval of a thing whose row t has locked, in place of one that the token
// gave before.
func PutApproval(ctx context.Context, t *Tx, about, digest string, a Approval) error {
	if err := CheckTexts("reason", a.Reason, "token", a.Token, "name", a.Name); err != nil {
		return err
	}
	id := about + " " + a.Token
	_, err := t.Exec(ctx, addApprovalSQL, id, about, a.Token, a.Name, int64(a.At), digest, a.Reason,
		approvalRows.MAC(t, id, about, a.Token, a.Name, int64(a.At), digest, a.Reason))
	return err
}
