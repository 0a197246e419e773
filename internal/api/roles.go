package api

import (
	"slices"

	"countersign/client"
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
	Everybody    = Roles(client.Values[client.Role]())
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

// shown returns the roles that the document shows. It returns an empty list for a route without a token.
func (l Roles) shown() []client.Role {
	if slices.Contains(l, anyone) {
		return []client.Role{}
	}
	return l
}
