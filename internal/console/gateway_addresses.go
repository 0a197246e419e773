package console

import "countersign/client"

// addressesSection has the deposit addresses of the gateway's users.
var addressesSection = section{
	nav: navItem{"/console/addresses", "Addresses", "addresses"},
	pages: []page{
		{"GET /console/addresses", (*visit).addresses},
		{"GET /console/addresses/{seq}", (*visit).address},
		{"POST /console/addresses/{seq}/accept", (*visit).addressAccept},
		{"POST /console/addresses/{seq}/reject", (*visit).addressReject},
	},
	deeds: map[string]string{
		"address-accepted": "Accepted: the application is told to show it.",
		"address-rejected": "Rejected: the application goes on with the old address.",
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
	Names  map[string]string // of tokens
	Values map[string]string
}

func (v *visit) address() error {
	a, err := v.gateway.Address(v.r.Context(), v.seq())
	if err != nil {
		return err
	}
	page := addressPage{AddressEntry: a, Values: v.values(nil)}
	if page.Names, err = v.names(); err != nil {
		return err
	}
	return v.render("address", "Address of "+a.TenantUserID, page)
}

func (v *visit) addressAccept() error {
	return decideOn(v, "addresses", v.gateway.AcceptAddress, "address-accepted")
}

func (v *visit) addressReject() error {
	return decideOn(v, "addresses", v.gateway.RejectAddress, "address-rejected")
}
