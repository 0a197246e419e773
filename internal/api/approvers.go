package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// ChangesWait reports whether changes wait for an approver: there was a token of role
// approver, other than the one with the id except. That its tokens expire or are revoked
// ends nothing, since then one person alone would decide; EndApprovers does.
func ChangesWait(ctx context.Context, q db.Querier, except string) (bool, error) {
	return tokenIn(ctx, q, func(t Token) bool { return t.makesWait() && t.ID != except })
}

// approverExists reports whether there is a valid token of role approver; unbound, one that is
// bound to no merchant.
func approverExists(ctx context.Context, q db.Querier, now db.Millis, unbound bool) (bool, error) {
	return tokenIn(ctx, q, func(t Token) bool {
		return t.Role == client.RoleApprover && t.Valid(now) && (t.Merchants == "" || !unbound)
	})
}

func tokenIn(ctx context.Context, q db.Querier, counts func(Token) bool) (bool, error) {
	list, err := readTokens(ctx, q, ``)
	return slices.ContainsFunc(list, counts), err
}

// warnBefore is how long before its end the last approver's token is told of.
const warnBefore db.Millis = 7 * 24 * 3_600_000

// lastToken begins the subject of the alarm about it.
const lastToken = "token "

// warnOfLast raises approval_waits, once while it stands, when the last valid token of an
// approver of all merchants is about to expire. It ends the alarm when another one is valid for
// longer, or changes wait for nobody; not when the token has expired.
func (k *Changes) warnOfLast(ctx context.Context, now db.Millis) error {
	standing, err := k.c.DB.StandingAlarms(ctx, client.AlarmApprovalWaits)
	if err != nil {
		return err
	}
	standing = slices.DeleteFunc(standing, func(a client.Alarm) bool { return !strings.HasPrefix(a.Subject, lastToken) })
	list, err := readTokens(ctx, k.c.DB, ``)
	if err != nil {
		return err
	}
	waits := false
	var last Token
	for _, t := range list {
		waits = waits || t.makesWait()
		switch {
		case t.Role != client.RoleApprover || t.Merchants != "" || !t.Valid(now):
		case t.Expires == 0 || t.Expires-now > warnBefore:
			return k.c.DB.EndStanding(ctx, standing, now)
		case t.Expires > last.Expires:
			last = t
		}
	}
	if !waits {
		return k.c.DB.EndStanding(ctx, standing, now)
	}
	if last.ID == "" {
		return nil
	}
	return k.c.DB.RaiseNew(ctx, []client.Alarm{{Kind: client.AlarmApprovalWaits, First: now,
		Subject: lastToken + last.ID + " expires " + last.Expires.Time().UTC().Format(time.RFC3339)}})
}

const endApproverSQL = `UPDATE tokens SET over = 1, revoked = CASE WHEN revoked = 0 THEN $2 ELSE revoked END WHERE id = $1`

// recordApproversEnded is the kind of record of EndApprovers.
const recordApproversEnded = "approvers.ended"

// EndApprovers revokes the tokens of all approvers and lets changes take effect without one
// again, until the next approver's token is made. It returns their ids. Only an admin at the machine
// calls it: the API has no such operation.
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
