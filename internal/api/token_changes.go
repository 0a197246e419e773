package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// tokenContent is the content of a change that makes a token.
type tokenContent struct {
	Token Token
	Hash  []byte
}

func (k *Changes) applyToken(ctx context.Context, t *db.Tx, c *Change, content []byte, now db.Millis) error {
	var n tokenContent
	if err := json.Unmarshal(content, &n); err != nil || len(n.Hash) != 32 {
		return fmt.Errorf("change %s does not make a token: %w", c.ID, err)
	}
	n.Token.Created = now
	if c.DecidedBy != "" {
		// The proposer was shown the secret, so the token has the proposer's origin.
		proposer, err := FindToken(ctx, t, c.ProposedBy)
		if err != nil {
			return err
		}
		n.Token.Root = proposer.Root
	}
	if n.Token.Expires != 0 && n.Token.Expires <= now {
		return staleError("the token would have expired; propose it again")
	}
	return createToken(ctx, t, n.Token, [32]byte(n.Hash))
}

func (k *Changes) applyRevoke(ctx context.Context, t *db.Tx, c *Change, _ []byte, now db.Millis) error {
	if err := revokeToken(ctx, t, c.Token, now, nil); err != nil {
		return err
	}
	// Approvers that are bound to merchants can decide only on those. Without an unbound one, nobody could decide on
	// the rest.
	left, err := readTokens(ctx, t, ``)
	left = slices.DeleteFunc(left, func(t Token) bool { return t.Role != client.RoleApprover || !t.Valid(now) })
	if err == nil && len(left) > 0 && !slices.ContainsFunc(left, func(t Token) bool { return t.Merchants == "" }) {
		err = &db.ConflictError{Reason: "this is the last approver's token that is for all merchants; revoke those that are bound first"}
	}
	return err
}

// createToken returns the handler that makes tokens. known is Common.KnownMerchant.
func (k *Changes) createToken(known func(c *Call, id string) error) Handler {
	return Proposes(Handle(func(c *Call, _ None, in client.NewToken) (out client.CreatedToken, err error) {
		t, err := c.newToken(in, known)
		if err == nil {
			err = k.mayMake(c.R.Context(), c, t)
		}
		if err != nil {
			return out, err
		}
		secret, hash := MintToken()
		content, err := json.Marshal(tokenContent{t, hash[:]})
		if err != nil {
			return out, err
		}
		task, err := k.proposeToken(c, Change{Kind: ChangeToken, Token: t.ID, Before: map[string]string{},
			After: tokenMembers(t), Bound: t.Merchants}, content)
		return client.CreatedToken{Token: ShownToken(t), Secret: secret, Task: task}, err
	}))
}

// proposeToken is Propose by the caller, in a transaction of its own. It returns the id of the task if the change waits.
func (k *Changes) proposeToken(c *Call, change Change, content []byte) (task string, err error) {
	change.ProposedBy, change.Proposed = c.Token.ID, c.Now
	err = k.c.DB.Write(c.R.Context(), func(ctx context.Context, t *db.Tx) error {
		return k.Propose(ctx, t, &change, content)
	})
	return c.TaskOf(&change), err
}

// tokenMembers describes a token for people.
func tokenMembers(t Token) map[string]string {
	m := map[string]string{"name": t.Name, "role": string(t.Role), "merchants": "all", "expires": "never"}
	if t.Merchants != "" {
		m["merchants"] = strings.ReplaceAll(t.Merchants, " ", ", ")
	}
	if t.Expires != 0 {
		m["expires"] = t.Expires.Time().UTC().Format(time.RFC3339)
	}
	if t.Hourly != 0 {
		m["depositsPerHour"] = strconv.FormatInt(t.Hourly, 10)
	}
	return m
}

// revokeToken returns the handler that revokes tokens. An approver's token is revoked by a change, because without it
// the other changes would need nobody's approval. Any other token is revoked at once, so that a stolen one can be
// stopped.
func (k *Changes) revokeToken() Handler {
	return Proposes(One(func(c *Call, id string, _ None) (out client.RevokedToken, err error) {
		t, err := FindToken(c.R.Context(), k.c.DB, id)
		switch {
		case err != nil:
			return out, err
		case !t.Within(c.Token):
			return out, db.ErrNotFound
		case t.Role == client.RoleAdmin && c.Token.Role != client.RoleAdmin:
			return out, NewProblem(http.StatusForbidden, "only an admin's token can revoke an admin's token")
		case t.Role == client.RoleApprover && t.Valid(c.Now):
			out.Task, err = k.proposeToken(c, Change{Kind: ChangeRevoke, Token: id, Before: tokenMembers(t),
				After: map[string]string{"revoked": "yes"}, Bound: t.Merchants}, nil)
		default:
			// The last admin's token stays: no other role can do everything.
			err = k.tokens.Revoke(c.R.Context(), id, c.Now, func(r client.Role) bool { return r == client.RoleAdmin })
			c.ForgetTokens()
			t.Revoked = cmp.Or(t.Revoked, c.Now)
		}
		out.Token = ShownToken(t)
		return out, err
	}))
}

const endApproversSQL = `
UPDATE tokens SET approver = 0, revoked = CASE WHEN revoked = 0 THEN $1 ELSE revoked END WHERE approver = 1`

// recordApproversEnded is the kind of the record that EndApprovers adds.
const recordApproversEnded = "approvers.ended"

// EndApprovers revokes the tokens of all approvers and returns their ids. Changes then take effect without an
// approver until the next approver's token is made. Only an admin at the machine can call it: the API has no such
// operation.
func EndApprovers(ctx context.Context, d *db.DB, now db.Millis) (ids []string, err error) {
	err = d.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		ids = []string{}
		list, err := readTokens(ctx, t, ` WHERE approver = 1 ORDER BY id{lock}`)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, token := range list {
			ids = append(ids, token.ID)
		}
		if _, err := t.Exec(ctx, endApproversSQL, int64(now)); err != nil {
			return err
		}
		if err := db.RaiseAlarms(ctx, t, []client.Alarm{{Kind: client.AlarmControlChanged, Subject: "no-approvers " + ids[0],
			First: now}}); err != nil {
			return err
		}
		return journal.Add(ctx, t, journal.Record{Kind: recordApproversEnded, At: now, About: ids})
	})
	return ids, err
}
