package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"countersign/client"
)

// person is somebody whom the identity provider knows.
type person struct {
	Subject   string // the issuer, a space, and its id of the person
	Name      string // the provider's name of the person, cleaned by cleanName
	Role      client.Role
	Merchants string // in the form of Token.Merchants
	Group     string // the group that gave the role
}

// root returns the origin of the person's rows in the table of tokens, which is the id of the first.
func (p person) root() string {
	sum := sha256.Sum256([]byte(p.Subject))
	return "oidc_" + base64.RawURLEncoding.EncodeToString(sum[:15])
}

// groupRow is a row of the table that maps groups to roles.
type groupRow struct {
	group     string
	role      client.Role
	merchants []string
}

// readGroups parses the table from groups to roles. roles are the roles of the end's tokens; bound says whether they
// can be bound to merchants.
func readGroups(rows []string, roles []client.Role, bound bool) (list []groupRow, err error) {
	if len(rows) == 0 {
		return nil, errors.New("--oidc-groups is missing: without it nobody who signs in has a role")
	}
	people := slices.DeleteFunc(slices.Clone(roles), func(r client.Role) bool {
		return r == client.RoleIngest || r == client.RoleCore || r == client.RoleApp || r == client.RoleMerchant
	})
	for _, text := range rows {
		at := strings.LastIndexByte(text, '=')
		if at <= 0 {
			return nil, fmt.Errorf("--oidc-groups: %q is not GROUP=ROLE or GROUP=ROLE:MERCHANT,MERCHANT", text)
		}
		role, merchants, has := strings.Cut(strings.TrimSpace(text[at+1:]), ":")
		row := groupRow{group: strings.TrimSpace(text[:at]), role: client.Role(role)}
		if !slices.Contains(people, row.role) {
			return nil, fmt.Errorf("--oidc-groups: %q gives the role %q; people have %s, and programs have tokens", text, role,
				wordsOf(people, ", "))
		}
		if has && !bound {
			return nil, fmt.Errorf("--oidc-groups: %q names merchants: a gateway has one", text)
		}
		if has {
			for m := range strings.SplitSeq(merchants, ",") {
				if m = strings.TrimSpace(m); !idText.MatchString(m) {
					return nil, fmt.Errorf("--oidc-groups: %q names a merchant %q, which is not an id", text, m)
				}
				row.merchants = append(row.merchants, m)
			}
		}
		list = append(list, row)
	}
	return list, nil
}

func wordsOf(roles []client.Role, between string) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, between)
}

// roleOf returns the role of the first row whose group the person has. The person is bound to the merchants of all
// such rows with that role. If one of these rows names no merchant, the person is not bound.
func roleOf(table []groupRow, groups []string) (role client.Role, merchants, group string) {
	bound := map[string]bool{}
	for _, row := range table {
		if !slices.Contains(groups, row.group) || role != "" && row.role != role {
			continue
		}
		if role == "" {
			role, group = row.role, row.group
		}
		if len(row.merchants) == 0 {
			return role, "", group
		}
		for _, m := range row.merchants {
			bound[m] = true
		}
	}
	return role, strings.Join(slices.Sorted(maps.Keys(bound)), " "), group
}

// claimAt returns a claim by its name, or by a path of names with dots that leads into objects. A claim whose own
// name has dots takes precedence.
func claimAt(claims map[string]json.RawMessage, path string) json.RawMessage {
	name, rest, deeper := strings.Cut(path, ".")
	var inner map[string]json.RawMessage
	if raw, has := claims[path]; has || !deeper || json.Unmarshal(claims[name], &inner) != nil {
		return raw
	}
	return claimAt(inner, rest)
}

// groupsOf returns the groups in a claim, which is a list or one group. Items of the list that are not texts are left
// out.
func groupsOf(raw json.RawMessage) (groups []string) {
	var list []any
	var one string
	switch {
	case json.Unmarshal(raw, &list) == nil:
		for _, v := range list {
			if s, ok := v.(string); ok {
				groups = append(groups, s)
			}
		}
	case json.Unmarshal(raw, &one) == nil:
		groups = []string{one}
	}
	return groups
}

// errNoRole means that the provider knows the person, but none of the person's groups has a role here.
var errNoRole = errors.New("none of the groups that the identity provider names has a role here")

// errLeftOut is an errNoRole: the provider left the person's groups out of its token.
var errLeftOut = fmt.Errorf("%w: it left the groups out of its token, since there are too many (_claim_names or hasgroups). "+
	"At the provider, assign the groups to the application and send these alone, or use app roles with --oidc-claim roles", errNoRole)

// leftOut reports whether the provider says that the person has too many groups for its token. Microsoft Entra does
// so above 200.
func leftOut(claims map[string]json.RawMessage) bool {
	var elsewhere struct{ Groups json.RawMessage }
	_ = json.Unmarshal(claims["_claim_names"], &elsewhere)
	return elsewhere.Groups != nil || string(claims["hasgroups"]) == "true"
}

// subjectText matches the id of a person: printable ASCII, by OpenID Connect.
var subjectText = regexp.MustCompile(`^[!-~]{1,255}$`)

// maxPersonName is the longest part of a person's name, in characters.
const maxPersonName = 90

// cleanName returns a name without characters that could change the text around it or that are invisible. It is
// needed because whoever has an account at the provider chooses the name.
func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.Is(unicode.C, r) || unicode.Is(unicode.Z, r) ||
			unicode.Is(unicode.Variation_Selector, r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxPersonName {
		s = string(r[:maxPersonName-1]) + "…"
	}
	return s
}
