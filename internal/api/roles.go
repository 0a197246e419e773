package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign/client"
	"countersign/internal/db"
)

// Roles is the set of roles that may call a route.
type Roles []client.Role

// anyone stands in the set of a route that needs no token. No token has this role, and
// a route without a set is refused by New, so that forgetting it opens nothing.
const anyone client.Role = ""

// Open is the set of routes that need no token.
var Open = Roles{anyone}

// And gives the set with more roles.
func (r Roles) And(more ...client.Role) Roles { return append(slices.Clone(r), more...) }

// Scope says how a route keeps to the merchants that a token is bound to.
type Scope int

const (
	// Whole: the route concerns all merchants. A bound token may not call it.
	Whole Scope = iota
	// ByPath: the path names the merchant, see Config.Concerns. For a bound token there
	// are no others.
	ByPath
	// ByHandler: the handler asks Call.Sees.
	ByHandler
)

func (rt *Endpoint) open() bool { return slices.Contains(rt.Roles, anyone) }

// shown are those that the document shows, none for an open route.
func (l Roles) shown() []client.Role {
	if slices.Contains(l, anyone) {
		return []client.Role{}
	}
	return l
}

// mayCall refuses a valid token whose role or whose merchants do not allow the route.
// merchant is the one in the path.
func (rt *Endpoint) mayCall(t Token, merchant string) error {
	switch {
	case !slices.Contains(rt.Roles, t.Role):
		needed := make([]string, len(rt.Roles))
		for i, r := range rt.Roles {
			needed[i] = string(r)
		}
		return NewProblem(http.StatusForbidden, fmt.Sprintf("the token has the role %s; this needs %s", t.Role, strings.Join(needed, " or ")))
	case t.Merchants == "":
		return nil
	case rt.Scope == Whole:
		return NewProblem(http.StatusForbidden, "the token is bound to merchants; this concerns all of them")
	case rt.Scope == ByPath && !t.Sees(merchant):
		return db.ErrNotFound
	}
	return nil
}

// Sees reports whether there is this merchant for the caller: a token that is bound to
// others must not learn of it.
func (c *Call) Sees(merchant string) bool { return c.Token.Sees(merchant) }

// Sees reports whether the token is bound to no merchant or to this one.
func (t Token) Sees(merchant string) bool {
	return t.Merchants == "" || slices.Contains(t.BoundTo(), merchant)
}

// BoundTo gives the ids of the merchants that the token is bound to; nil: it is bound
// to none.
func (t Token) BoundTo() []string {
	if t.Merchants == "" {
		return nil
	}
	return strings.Split(t.Merchants, " ")
}
