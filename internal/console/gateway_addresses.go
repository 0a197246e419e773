package console

import (
	"strconv"

	"countersign/client"
)

// addressesSection shows the deposit addresses of the gateway's users.
var addressesSection = section{
	nav:   navItem{"/console/addresses", "Addresses", "addresses"},
	lists: []lister{addressesList},
	pages: []page{
		{"GET /console/addresses/{seq}", (*visit).address},
	},
}

var addressesList = &list[client.AddressFilter, client.AddressEntry]{
	table: table{"addresses", "Addresses",
		"No address is here. The service tells of one when it replaces the deposit address of a user.",
		[]column{
			{"No.", "n", `<a href="/console/addresses/{{.Seq}}">{{.Seq}}</a>`},
			{"Reported", "", `{{when .Taken}}`},
			{"User", "long slim", `{{text .TenantUserID}}`},
			{"Address", "long addr", `{{text .Address}} <span class="hint">{{text .ChainName}}</span>`},
			{"Replaces", "long addr", `{{with .OldAddress}}{{text .}}{{else}}<span class="hint">not known</span>{{end}}`},
			{"State", "", `{{state .State}}`},
		}},
	hint: "What the service reported of users' deposit addresses. " +
		"One that replaces another counts only when a person accepts it.",
	fields: []field{{name: "tenantUserId", label: "User"}, {name: "state", label: "State"}},
}

func (v *visit) address() error {
	a := fetch[client.AddressEntry](v, client.Path("addresses", v.seq()))
	task := client.TaskID(client.TaskAddress, strconv.FormatInt(a.Seq, 10))
	return v.thing("address", "Address of "+a.TenantUserID, task, a, nil)
}
