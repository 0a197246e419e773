package console

import (
	"cmp"
	"slices"
	"strings"

	"countersign/client"
)

// tokensSection shows the tokens of an end.
var tokensSection = section{
	nav:   navItem{"/console/tokens", "Tokens", "tokens"},
	lists: []lister{tokensList},
	pages: []page{
		{"POST /console/tokens", (*visit).tokenMake},
		{"POST /console/tokens/{id}/revoke", call("revoked", "DELETE /v1/tokens/{id}")},
	},
	notices: map[string]string{
		"revoked": "Revoked: at once on this node, within a second on the others.",
	},
}

var tokensList = &list[struct{}, client.Token]{
	table: table{"tokens", "Tokens", "", []column{
		{"Name", "long", `{{text .Name}}{{if eq .ID $.Me.ID}} <span class="hint">(you)</span>{{end}}`},
		{"Role", "", `{{.Role}}{{with .Hourly}} <span class="hint">{{number .}} deposits an hour</span>{{end}}`},
		{"State", "", `{{if .Revoked}}{{state "revoked"}} {{when .Revoked}}{{else}}{{state "valid"}}{{end}}`},
		{"For", "long slim", `{{range $i, $m := .Merchants}}{{if $i}}, {{end}}{{$m}}{{else}}<span class="hint">all</span>{{end}}`},
		{"Ends", "", `{{if .Expires}}{{when .Expires}}{{else}}<span class="hint">never</span>{{end}}`},
		{"Id", "", `{{id .ID}}`},
		{"Made", "", `{{when .Created}}`},
		{`<span class="sr">Acts</span>`, "long",
			`{{if and (not .Revoked) ($.May "revokeToken") (or (ne .Role "admin") (eq $.Me.Role "admin"))}}{{template "revoke" .}}{{end}}`},
	}},
	hint: "A token is a person or a program. Give each its own, with the least role that does: " +
		"every act is recorded with its token.",
	read: func(v *visit, _ struct{}, _ client.PageOptions) (client.List[client.Token], error) {
		page, err := read[client.List[client.Token]](v, "/v1/tokens")
		slices.Reverse(page.Items) // the newest first, below those that are valid
		slices.SortStableFunc(page.Items, func(a, b client.Token) int {
			return cmp.Compare(min(a.Revoked, 1), min(b.Revoked, 1))
		})
		return page, err
	},
	form: func(v *visit) (any, error) {
		// A token that is bound to merchants makes tokens for these only.
		values := v.values(map[string]string{"merchants": strings.Join(v.me.Merchants, " ")})
		return tokenForm{atEnd(v, client.ValuesAt[client.Role](client.AtService), client.ValuesAt[client.Role](client.AtGateway)), values}, nil
	},
}

// tokenForm is the form for a new token.
type tokenForm struct {
	Roles  []client.Role
	Values map[string]string
}

func (v *visit) tokenMake() error {
	in := client.NewToken{Name: v.form("name"), Role: client.Role(v.form("role")),
		Merchants: strings.Fields(v.form("merchants"))}
	days, err := v.number("days", "number of days")
	if err != nil {
		return err
	}
	if days != 0 {
		in.Expires = client.TimeOf(v.c.Now().AddDate(0, 0, days))
	}
	hourly, err := v.number("hourly", "number of deposits an hour")
	if err != nil {
		return err
	}
	in.Hourly = int64(hourly)
	made, err := v.api.CreateToken(v.r.Context(), in)
	if err != nil {
		return err
	}
	var warnings []string
	if made.Task != "" {
		warnings = []string{"It is not valid yet: the task " + made.Task + " waits for an approver."}
	}
	return v.render("once", "Token of "+made.Name, once{Back: "/console/tokens", Warnings: warnings, Items: []onceItem{
		{"Token", "signs in to this console and to the API, with the role " + string(made.Role), made.ID + ".token",
			made.Secret.Reveal()}}})
}
