package console

import (
	"strings"

	"countersign/client"
)

// tokensSection has the tokens of an end.
var tokensSection = section{
	nav: navItem{"/console/tokens", "Tokens", "tokens"},
	pages: []page{
		{"GET /console/tokens", (*visit).tokens},
		{"POST /console/tokens", (*visit).tokenMake},
		{"POST /console/tokens/{id}/revoke", (*visit).tokenRevoke},
	},
	notices: map[string]string{
		"revoked": "Revoked: at once on this node, within a second on the others.",
	},
}

// tokensPage lists the tokens of an end and makes new ones.
type tokensPage struct {
	Tokens []tokenRow
	Roles  []client.Role
	Values map[string]string
}

// tokenRow is a token with what the session's token may do to it.
type tokenRow struct {
	client.Token
	Revokes bool
	Kept    string // why nobody may revoke it; empty: somebody may
}

// tokenRows returns the rows of tokens, those that are valid first, the newest first.
func (v *visit) tokenRows(list []client.Token) (rows []tokenRow) {
	lasting := func(t client.Token) bool {
		return t.Role == client.RoleAdmin && len(t.Merchants) == 0 && t.Expires == 0 && t.Revoked == 0
	}
	admins := 0
	for _, t := range list {
		if lasting(t) {
			admins++
		}
	}
	for _, valid := range []bool{true, false} {
		for i := len(list) - 1; i >= 0; i-- {
			t := list[i]
			if (t.Revoked == 0) != valid {
				continue
			}
			row := tokenRow{Token: t}
			row.Revokes = valid && v.may("revokeToken") && (t.Role != client.RoleAdmin || v.me.Role == client.RoleAdmin)
			if row.Revokes && lasting(t) && admins == 1 {
				row.Revokes, row.Kept = false, "the last admin's token that never expires: make another first"
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// roles are those that the tokens of an end can have.
func (v *visit) roles() []client.Role {
	if v.service != nil {
		return client.Role("").AtService()
	}
	return client.Role("").AtGateway()
}

func (v *visit) listTokens() ([]client.Token, error) {
	if v.service != nil {
		return v.service.Tokens(v.r.Context())
	}
	return v.gateway.Tokens(v.r.Context())
}

func (v *visit) tokens() error {
	list, err := v.listTokens()
	if err != nil {
		return err
	}
	if v.wantsSheet() {
		return writeSheet(v, func() (client.Tokens, bool, error) { return client.Tokens{Tokens: list}, false, nil })
	}
	// A token that is bound to merchants makes tokens for these alone.
	values := v.values(map[string]string{"merchants": strings.Join(v.me.Merchants, " ")})
	return v.render("tokens", "Tokens", tokensPage{Tokens: v.tokenRows(list), Roles: v.roles(), Values: values})
}

func (v *visit) tokenMake() error {
	in := client.NewToken{Name: v.form("name"), Role: client.Role(v.form("role")), Merchants: strings.Fields(v.form("merchants"))}
	if days, err := v.whole("days"); err != nil {
		return err
	} else if days > 0 {
		in.Expires = client.TimeOf(v.c.Now().AddDate(0, 0, days))
	}
	if hourly, err := v.whole("hourly"); err != nil {
		return err
	} else if hourly > 0 {
		in.Hourly = int64(hourly)
	}
	var made client.CreatedToken
	var err error
	if v.service != nil {
		made, err = v.service.CreateToken(v.r.Context(), in)
	} else {
		made, err = v.gateway.CreateToken(v.r.Context(), in)
	}
	if err != nil {
		return err
	}
	var warnings []string
	if made.Change != nil {
		warnings = []string{"It is not valid yet: the change " + made.Change.ID + " waits for an approver."}
	}
	return v.showOnce(once{Title: "Token of " + made.Name, Back: "/console/tokens", Warnings: warnings, Items: []onceItem{
		{"Token", "signs in to this console and to the API, with the role " + string(made.Role), made.ID + ".token", made.Secret.Reveal()}}})
}

func (v *visit) tokenRevoke() error {
	id := v.r.PathValue("id")
	var waits *client.ChangeEntry
	var err error
	if v.service != nil {
		waits, err = v.service.RevokeToken(v.r.Context(), id)
	} else {
		waits, err = v.gateway.RevokeToken(v.r.Context(), id)
	}
	if err != nil {
		return err
	}
	if waits != nil {
		return v.done("/console/tokens", "waits")
	}
	return v.done("/console/tokens", "revoked")
}
