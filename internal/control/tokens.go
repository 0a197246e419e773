package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
)

// newToken is the content of a change that makes a token.
type newToken struct {
	Token api.Token
	Hash  []byte
}

func (k *Control) applyToken(ctx context.Context, c *Change, content []byte, now db.Millis, also func(context.Context, *db.Tx) error) error {
	var n newToken
	if err := json.Unmarshal(content, &n); err != nil || len(n.Hash) != 32 {
		return fmt.Errorf("change %s makes no token: %w", c.ID, err)
	}
	n.Token.Created = now
	return k.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if c.DecidedBy != "" {
			// Whoever proposed it was shown the secret.
			proposer, err := api.FindToken(ctx, t, c.ProposedBy)
			if err != nil {
				return err
			}
			n.Token.Root = proposer.Root
		}
		if n.Token.Expires != 0 && n.Token.Expires <= now {
			return fmt.Errorf("%w: the token would have expired", ErrStale)
		}
		if err := api.CreateToken(ctx, t, n.Token, [32]byte(n.Hash)); err != nil {
			return err
		}
		return also(ctx, t)
	})
}

func (k *Control) applyRevoke(ctx context.Context, c *Change, _ []byte, now db.Millis, also func(context.Context, *db.Tx) error) error {
	return k.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if err := api.RevokeToken(ctx, t, c.Token, now, nil); err != nil {
			return err
		}
		// Approvers that are bound to merchants decide on nothing else, so nobody would.
		any, err := api.ApproverExists(ctx, t, now, "")
		if err != nil {
			return err
		}
		if unbound, err := api.UnboundApproverExists(ctx, t, now); err != nil {
			return err
		} else if any && !unbound {
			return &db.ConflictError{Reason: "this is the last approver's token that is for all merchants; revoke those that are bound first"}
		}
		return also(ctx, t)
	})
}

// CreateToken makes the handler that makes tokens. known is as in api.Call.NewToken.
func (k *Control) CreateToken(known func(c *api.Call, id string) error) api.Handler {
	return api.HandleChange(func(c *api.Call, _ api.None, in client.NewToken) (client.CreatedToken, *client.Proposed, error) {
		ctx := c.R.Context()
		var check func(string) error
		if known != nil {
			check = func(id string) error { return known(c, id) }
		}
		t, err := c.NewToken(in, check)
		if err != nil {
			return client.CreatedToken{}, nil, err
		}
		if err := k.mayMake(ctx, c, t); err != nil {
			return client.CreatedToken{}, nil, err
		}
		secret, hash := api.MintToken()
		content, err := json.Marshal(newToken{t, hash[:]})
		if err != nil {
			return client.CreatedToken{}, nil, err
		}
		change := &Change{Kind: client.ChangeToken, Token: t.ID, Bound: t.Merchants, Before: map[string]string{}, After: membersOf(t), ProposedBy: c.Token.ID, Proposed: c.Now}
		if err := k.Propose(ctx, change, content); err != nil {
			return client.CreatedToken{}, nil, err
		}
		if change.State == client.ChangeWaiting {
			return client.CreatedToken{}, &client.Proposed{Change: change.Shown(), Secret: secret}, nil
		}
		return client.CreatedToken{Token: api.ShownToken(t), Secret: secret}, nil, nil
	})
}

// mayMake refuses what nobody could undo or decide on. Where there is no approver a
// token is made at once, so only an admin makes any: an operator could else make a token
// that does what an operator may not.
func (k *Control) mayMake(ctx context.Context, c *api.Call, t api.Token) error {
	any, err := api.ApproverExists(ctx, k.c.DB, c.Now, "")
	if err != nil {
		return err
	}
	if !any && c.Token.Role != client.RoleAdmin {
		return api.NewProblem(http.StatusForbidden, "while there is no approver's token, only an admin's makes tokens")
	}
	if t.Role == client.RoleApprover && t.Merchants != "" {
		unbound, err := api.UnboundApproverExists(ctx, k.c.DB, c.Now)
		if err == nil && !unbound {
			err = api.Invalid(api.At("body.merchants", "binds the first approver, and then nobody decides on what is not of these merchants; make an approver for all first"))
		}
		return err
	}
	return nil
}

// membersOf tells a person what a token is.
func membersOf(t api.Token) map[string]string {
	m := map[string]string{"name": t.Name, "role": string(t.Role), "merchants": "all", "expires": "never"}
	if t.Merchants != "" {
		m["merchants"] = strings.ReplaceAll(t.Merchants, " ", ", ")
	}
	if t.Expires != 0 {
		m["expires"] = t.Expires.Time().UTC().Format(time.RFC3339)
	}
	return m
}

// RevokeToken is the handler that revokes tokens. An approver's token is revoked by a
// change, since without it the others' changes would need nobody; every other is revoked
// at once, so that a stolen one can be stopped.
func (k *Control) RevokeToken(revoke func(c *api.Call, id string) error) api.Handler {
	return api.HandleChange(func(c *api.Call, _ api.None, _ api.None) (api.None, *client.Proposed, error) {
		none := api.None{}
		id, err := c.PathID()
		if err != nil {
			return none, nil, err
		}
		t, err := k.tokens.ByID(c.R.Context(), id)
		switch {
		case err != nil:
			return none, nil, err
		case !t.Within(c.Token):
			return none, nil, db.ErrNotFound
		case t.Role == client.RoleAdmin && c.Token.Role != client.RoleAdmin:
			return none, nil, api.NewProblem(http.StatusForbidden, "only an admin's token revokes that of an admin")
		case t.Role != client.RoleApprover || !t.Valid(c.Now):
			return none, nil, revoke(c, id)
		}
		change := &Change{Kind: client.ChangeRevoke, Token: id, Bound: t.Merchants, Before: membersOf(t), After: map[string]string{"revoked": "yes"},
			ProposedBy: c.Token.ID, Proposed: c.Now}
		if err := k.Propose(c.R.Context(), change, nil); err != nil {
			return none, nil, err
		}
		return none, &client.Proposed{Change: change.Shown()}, nil
	})
}
