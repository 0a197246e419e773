package api

import (
	"context"
	"slices"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// ChangesWait reports whether changes wait for an approver. They do once a token of role approver was made, other
// than the token except. They still wait after that token expires or is revoked, since one person could otherwise
// decide alone. Only EndApprovers ends the waiting.
func ChangesWait(ctx context.Context, q db.Querier, except string) (bool, error) {
	return tokenIn(ctx, q, func(t Token) bool { return t.makesWait() && t.ID != except })
}

// approverExists reports whether a valid token of role approver exists. With unbound, only a token that is bound to
// no merchant counts.
func approverExists(ctx context.Context, q db.Querier, now db.Millis, unbound bool) (bool, error) {
	return tokenIn(ctx, q, func(t Token) bool {
		return t.Role == client.RoleApprover && t.Valid(now) && (t.Merchants == "" || !unbound)
	})
}

func tokenIn(ctx context.Context, q db.Querier, counts func(Token) bool) (bool, error) {
	list, err := readTokens(ctx, q, ``)
	return slices.ContainsFunc(list, counts), err
}

const endApproverSQL = `UPDATE tokens SET over = 1, revoked = CASE WHEN revoked = 0 THEN $2 ELSE revoked END WHERE id = $1`

// recordApproversEnded is the kind of the record that EndApprovers adds.
const recordApproversEnded = "approvers.ended"

// EndApprovers revokes the tokens of all approvers and returns their ids. Changes then take effect without an
// approver until the next approver's token is made. Only an admin at the machine can call it: the API has no such
// operation.
func EndApprovers(ctx context.Context, d *db.DB, now db.Millis) (ids []string, err error) {
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		ids = []string{}
		list, err := readTokens(ctx, t, ` ORDER BY id{lock}`)
		if err != nil {
			return err
		}
		for _, token := range list {
			if !token.makesWait() {
				continue
			}
			ids = append(ids, token.ID)
			if _, err := t.Exec(ctx, endApproverSQL, token.ID, int64(now)); err != nil {
				return err
			}
		}
		if len(ids) == 0 {
			return nil
		}
		if err := db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmControlChanged, Subject: "no-approvers " + ids[0], First: now}}); err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: recordApproversEnded, At: now, About: ids})
	})
	return ids, err
}
