package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// minTokenLife is the shortest life of a new token. A request for a token that has already ended is a mistake.
const minTokenLife db.Millis = 60_000

// newToken checks a request for a token and returns the token's record. known is Common.KnownMerchant.
func (c *Call) newToken(in client.NewToken, known func(c *Call, id string) error) (Token, error) {
	var faults Faults
	t := NewStoreToken(in.Name, in.Role, c.Now)
	t.Maker, t.Expires, t.Hourly = c.Token.ID, db.Millis(in.Expires), in.Hourly
	if t.Hourly > 0 && t.Role != client.RoleIngest {
		faults.Add("body.depositsPerHour", "applies only to a token of the role ingest")
	}
	if t.Role == client.RoleMerchant && len(in.Merchants) == 0 {
		faults.Add("body.merchants", "is missing: a token of the role merchant is bound to a merchant")
	}
	if t.Expires != 0 && t.Expires < c.Now+minTokenLife {
		faults.Add("body.expires", "is not at least a minute from now")
	}
	if len(in.Merchants) > 0 && known == nil {
		faults.Add("body.merchants", "must be left out: a gateway has one merchant")
	}
	if err := faults.Err(); err != nil {
		return Token{}, err
	}
	if c.Token.Merchants != "" && (len(in.Merchants) == 0 ||
		slices.ContainsFunc(in.Merchants, func(m string) bool { return !c.Sees(m) })) {
		return Token{}, NewProblem(http.StatusForbidden,
			"the token is bound to some merchants: it can make tokens for these only")
	}
	for i, m := range in.Merchants {
		at := fmt.Sprintf("body.merchants[%d]", i)
		switch err := known(c, m); {
		case errors.Is(err, db.ErrNotFound):
			faults.Add(at, "is not known")
		case err != nil:
			return Token{}, err
		case slices.Contains(in.Merchants[:i], m):
			faults.Add(at, "occurs twice")
		}
	}
	t.Merchants = strings.Join(slices.Sorted(slices.Values(in.Merchants)), " ")
	return t, faults.Err()
}

// self returns the caller's token and the operations that it may call now.
func (k *Changes) self(c *Call, _ None, _ None) (out client.Self, err error) {
	out = client.Self{Token: ShownToken(c.Token), May: []string{}}
	for _, rt := range c.a.endpoints {
		may := slices.Contains(rt.Roles, c.Token.Role) && (c.Token.Merchants == "" || rt.Scope != Whole)
		if may && rt.ID == "createToken" {
			if may, err = k.mayMakeAny(c.R.Context(), c.Token); err != nil {
				return out, err
			}
		}
		if may {
			out.May = append(out.May, rt.ID)
		}
	}
	return out, nil
}

// listTokens returns the tokens that the caller may see.
func (k *Changes) listTokens(c *Call, _ None, _ None) (client.List[client.Token], error) {
	out := client.List[client.Token]{Items: []client.Token{}}
	list, err := k.tokens.List(c.R.Context())
	for _, t := range list {
		if t.Within(c.Token) {
			out.Items = append(out.Items, ShownToken(t))
		}
	}
	return out, err
}

// mayMake returns an error for a token whose effect nobody could undo or decide on. While changes do not wait, a
// token is made at once and only an admin may make one. Otherwise an operator could make a token that does what an
// operator may not.
func (k *Changes) mayMake(ctx context.Context, c *Call, t Token) error {
	any, err := k.mayMakeAny(ctx, c.Token)
	if err != nil {
		return err
	}
	if !any {
		return NewProblem(http.StatusForbidden, "as long as there is no approver, only an admin's token can make tokens")
	}
	if t.Role == client.RoleApprover && t.Merchants != "" {
		list, err := k.tokens.List(ctx)
		if err == nil && !slices.ContainsFunc(list, func(t Token) bool {
			return t.Role == client.RoleApprover && t.Valid(c.Now) && t.Merchants == ""
		}) {
			err = Invalid(At("body.merchants", "binds the first approver, and nobody could decide for the other merchants: make an approver for all of them first"))
		}
		return err
	}
	return nil
}

// mayMakeAny reports whether a token whose role can make tokens may do so now.
func (k *Changes) mayMakeAny(ctx context.Context, t Token) (bool, error) {
	if t.Role == client.RoleAdmin {
		return true, nil
	}
	return changesWait(ctx, k.c.DB)
}
