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

// anyone is in the set of a route that needs no token. No token has this role. New refuses a route without a set, so
// forgetting the set opens nothing.
const anyone client.Role = ""

// Open is the set of routes that need no token.
var Open = Roles{anyone}

// The sets of roles of the routes at both ends (docs/provider/control.md). AtEnd removes the roles that an end does
// not have. An operator neither adds nor releases withdrawals, so whoever sets up a merchant cannot also take its
// money out.
var (
	Readers   = Roles{client.RoleViewer, client.RoleOperator, client.RoleApprover, client.RoleAdmin}
	Operators = Roles{client.RoleOperator, client.RoleAdmin}
	// Owners and OwnReaders also contain the role merchant, whose tokens are bound to a merchant.
	Owners     = append(Roles{client.RoleMerchant}, Operators...)
	OwnReaders = append(Roles{client.RoleMerchant}, Readers...)
	Approvers  = Roles{client.RoleApprover, client.RoleAdmin}
	Deciders   = Roles{client.RoleOperator, client.RoleApprover, client.RoleAdmin}
	Ingesters  = Roles{client.RoleIngest, client.RoleCore, client.RoleAdmin}
	Cores      = Roles{client.RoleCore, client.RoleAdmin}
	Apps       = Roles{client.RoleApp, client.RoleAdmin}
	// MoneyReaders may read deposits, withdrawals, orders and the feeds.
	MoneyReaders = append(Roles{client.RoleCore, client.RoleApp}, Readers...)
	Everybody    = Roles(client.RoleAdmin.Values())
)

// AtEnd removes from each route the roles that tokens of an end cannot have. The rest are in the order of roles.
func AtEnd(roles []client.Role, routes []Route) []Route {
	for i, r := range routes {
		if !slices.Contains(r.Roles, anyone) {
			routes[i].Roles = slices.DeleteFunc(slices.Clone(roles),
				func(is client.Role) bool { return !slices.Contains(r.Roles, is) })
		}
	}
	return routes
}

// Scope says how a route limits a token that is bound to merchants.
type Scope int

const (
	// Whole: the route concerns all merchants. A bound token may not call it.
	Whole Scope = iota
	// ByPath: the path names the merchant, see Config.Concerns. For a bound token, other merchants do not exist.
	ByPath
	// ByHandler: the handler calls Call.Sees.
	ByHandler
)

func (rt *Endpoint) open() bool { return slices.Contains(rt.Roles, anyone) }

// shown returns the roles that the document shows. It returns an empty list for a route without a token.
func (l Roles) shown() []client.Role {
	if slices.Contains(l, anyone) {
		return []client.Role{}
	}
	return l
}

// mayCall returns an error if the role or the merchants of a valid token do not allow the route. merchant is the one
// in the path.
func (rt *Endpoint) mayCall(t Token, merchant string) error {
	switch {
	case !slices.Contains(rt.Roles, t.Role):
		return NewProblem(http.StatusForbidden, fmt.Sprintf("the token has the role %s; this needs %s", t.Role,
			wordsOf(rt.Roles, " or ")))
	case t.Merchants == "":
		return nil
	case rt.Scope == Whole:
		return NewProblem(http.StatusForbidden, "the token is bound to some merchants: this needs one for all of them")
	case rt.Scope == ByPath && !t.Sees(merchant):
		return db.ErrNotFound
	}
	return nil
}

// Sees reports whether the caller may know of the merchant. A token that is bound to others must not learn that it
// exists.
func (c *Call) Sees(merchant string) bool { return c.Token.Sees(merchant) }

// Sees reports whether the token is bound to no merchant or to this one.
func (t Token) Sees(merchant string) bool {
	return t.Merchants == "" || slices.Contains(t.BoundTo(), merchant)
}

// BoundTo returns the ids of the merchants that the token is bound to. It returns nil if the token is not bound.
func (t Token) BoundTo() []string {
	if t.Merchants == "" {
		return nil
	}
	return strings.Split(t.Merchants, " ")
}
