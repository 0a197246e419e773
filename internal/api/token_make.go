package api

import (
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

// ShownToken returns a token as the API shows it.
func ShownToken(t Token) client.Token {
	return client.Token{ID: t.ID, Name: t.Name, Role: t.Role, Merchants: t.BoundTo(), MadeBy: t.Maker,
		Fingerprint: t.Fingerprint, Created: TimeOf(t.Created), Expires: TimeOf(t.Expires), Revoked: TimeOf(t.Revoked),
		Hourly: t.Hourly, Subject: t.shownSubject()}
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

// Within reports whether t is bound only to merchants that other may see.
func (t Token) Within(other Token) bool {
	return other.Merchants == "" || t.Merchants != "" &&
		!slices.ContainsFunc(t.BoundTo(), func(m string) bool { return !other.Sees(m) })
}
