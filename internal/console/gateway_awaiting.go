package console

import (
	"cmp"
	"slices"
	"strconv"

	"countersign/client"
)

// awaitingSection is the first page of the gateway.
var awaitingSection = section{
	nav: navItem{root, "Awaiting", "orderRuling"},
	pages: []page{
		{"GET /console/{$}", (*visit).awaiting},
		{"GET /console/live/awaiting", (*visit).awaitingLive},
	},
}

// awaitingPage is what a person must decide on, the most urgent first.
type awaitingPage struct {
	Orders    []heldOrder
	More      bool // there are more orders than the page shows
	Deposits  []client.DepositEntry
	Addresses []client.AddressEntry
	Elsewhere []listLink // other pages on which something waits
}

// heldOrder is an order with what the policy says of it now.
type heldOrder struct {
	client.Order
	Ruling client.OrderRuling
}

func (v *visit) awaiting() error {
	if !v.may("orderRuling") {
		return v.elsewhere()
	}
	page, err := v.awaitingPage()
	if err != nil {
		return err
	}
	return v.render("awaiting", "Awaiting a person", page)
}

func (v *visit) awaitingLive() error {
	return v.live(func() (string, error) {
		page, err := v.awaitingPage()
		if err != nil {
			return "", err
		}
		return v.part("awaiting", "live", page)
	})
}

func (v *visit) awaitingPage() (page awaitingPage, err error) {
	ctx := v.r.Context()
	held, err := v.gateway.Orders(ctx, client.OrderFilter{State: client.OrderHeld}, client.PageOptions{Limit: pageSize})
	if err != nil {
		return page, err
	}
	page.More = held.Next != nil
	for _, o := range held.Orders {
		ruling, err := v.gateway.OrderRuling(ctx, o.CallBackID)
		if err != nil {
			return page, err
		}
		page.Orders = append(page.Orders, heldOrder{o, ruling})
	}
	slices.SortStableFunc(page.Orders, func(a, b heldOrder) int {
		return cmp.Or(cmp.Compare(a.Ruling.GivesUp, b.Ruling.GivesUp), cmp.Compare(a.Ruling.Asked, b.Ruling.Asked))
	})
	deposits, err := v.gateway.SearchDeposits(ctx, client.DepositSearch{State: client.DepositHeld}, client.PageOptions{Limit: pageSize})
	if err != nil {
		return page, err
	}
	page.Deposits = deposits.Deposits
	addresses, err := v.gateway.Addresses(ctx, client.AddressFilter{State: client.AddressHeld}, client.PageOptions{Limit: pageSize})
	page.Addresses = addresses.Addresses
	if err != nil {
		return page, err
	}
	page.Elsewhere, err = v.elsewhereWaits()
	return page, err
}

// elsewhereWaits gives the other pages on which something waits for a person.
func (v *visit) elsewhereWaits() (list []listLink, err error) {
	add := func(n int, more bool, one, many, path string) {
		switch {
		case n == 1 && !more:
			list = append(list, listLink{"1 " + one, path})
		case n > 0:
			list = append(list, listLink{strconv.Itoa(n) + map[bool]string{true: "+"}[more] + " " + many, path})
		}
	}
	ctx, most := v.r.Context(), client.PageOptions{Limit: 100}
	if v.may("refused") {
		refused, err := v.gateway.Refused(ctx, client.RefusedFilter{State: client.RefusedOpen}, most)
		if err != nil {
			return nil, err
		}
		add(len(refused.Refused), refused.Next != nil, "refused callback", "refused callbacks", "/console/refused?state=open")
	}
	if v.may("changes") {
		n, err := v.waitingChanges()
		if err != nil {
			return nil, err
		}
		add(n, n == most.Limit, "change", "changes", "/console/changes")
	}
	if v.may("forwards") {
		failed, err := v.gateway.Forwards(ctx, client.ForwardFilter{State: "failed"}, most)
		if err != nil {
			return nil, err
		}
		add(len(failed.Forwards), failed.Next != nil, "entry that the application did not take", "entries that the application did not take", "/console/forwarding")
	}
	return list, nil
}
