package console

import (
	"strconv"

	"countersign/client"
)

// addressesSection has the deposit addresses of the gateway's users.
var addressesSection = section{
	nav: navItem{"/console/addresses", "Addresses", "addresses"},
	pages: []page{
		{"GET /console/addresses", (*visit).addresses},
		{"GET /console/addresses/{seq}", (*visit).address},
	},
}

// addressesPage is the list of what the service told of deposit addresses.
type addressesPage struct {
	Filter    client.AddressFilter
	States    []client.AddressState
	Addresses []client.AddressEntry
	Next      string // the address of the next page
}

func (v *visit) addresses() error {
	page := addressesPage{States: client.AddressState("").Values(),
		Filter: client.AddressFilter{State: client.AddressState(v.query("state")), TenantUserID: v.query("tenantUserId")}}
	list, done, err := readList(v, func(o client.PageOptions) (client.AddressPage, error) {
		return v.gateway.Addresses(v.r.Context(), page.Filter, o)
	})
	if err != nil || done {
		return err
	}
	page.Addresses = list.Addresses
	page.Next, _ = v.nextPage(list.Next, len(list.Addresses), listSpan{}, "state", "tenantUserId")
	return v.render("addresses", "Addresses", page)
}

// addressPage is one address.
type addressPage struct {
	client.AddressEntry
	Names map[string]string // of tokens
	Task  *taskView
}

func (v *visit) address() error {
	a, err := v.gateway.Address(v.r.Context(), v.seq())
	if err != nil {
		return err
	}
	page := addressPage{AddressEntry: a}
	if page.Names, err = v.names(); err != nil {
		return err
	}
	if page.Task, err = v.taskOf(client.TaskAddress, strconv.FormatInt(a.Seq, 10)); err != nil {
		return err
	}
	return v.render("address", "Address of "+a.TenantUserID, page)
}
