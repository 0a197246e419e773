package console

import (
	"cmp"
	"slices"

	"countersign/client"
)

// awaitingPage is what a person must decide on, the most urgent first.
type awaitingPage struct {
	Orders    []heldOrder
	More      bool // there are more orders than the page shows
	Deposits  []client.DepositEntry
	Addresses []client.AddressEntry
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
	return page, err
}
