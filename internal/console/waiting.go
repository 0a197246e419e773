package console

import (
	"cmp"
	"slices"

	"countersign/client"
)

// waitingSection has what waits for the approval of a person, first what the one who is signed
// in may approve.
var waitingSection = section{
	nav:   navItem{"/console/waiting", "For you", "changeApproval"},
	pages: []page{{"GET /console/waiting", (*visit).waiting}},
}

// waitingMost is how many of a kind the page shows: each is asked about.
const waitingMost = 25

// waitingPage has what the session's token may approve, and what it may not.
type waitingPage struct {
	Yours, Others []waitingRow
	More          []listLink // lists that have more than the page shows
}

// waitingRow is something that waits for an approval.
type waitingRow struct {
	Kind, Name, Of, Path string
	Amount               *client.Details // nil: it is a change
	Since                client.Time
	Approvals            *client.Approvals // nil: nothing is known of them
	MayNot               string            // why the session's token may not approve it; empty: it may
}

func (v *visit) waiting() error {
	page := waitingPage{}
	for _, read := range []func(*waitingPage) ([]waitingRow, error){v.waitingOfChanges, v.waitingOfWithdrawals, v.waitingOfOrders} {
		list, err := read(&page)
		if err != nil {
			return err
		}
		for _, row := range list {
			if row.MayNot == "" {
				page.Yours = append(page.Yours, row)
			} else {
				page.Others = append(page.Others, row)
			}
		}
	}
	for _, list := range [][]waitingRow{page.Yours, page.Others} {
		slices.SortStableFunc(list, func(a, b waitingRow) int { return cmp.Compare(a.Since, b.Since) })
	}
	return v.render("waiting", "Waits for you", page)
}

var waitingPages = client.PageOptions{Limit: waitingMost}

func (v *visit) waitingOfChanges(page *waitingPage) (rows []waitingRow, err error) {
	if !v.may("changeApproval") {
		return nil, nil
	}
	list, err := v.changer().Changes(v.r.Context(), client.ChangeFilter{State: client.ChangeWaiting}, waitingPages)
	if err != nil {
		return nil, err
	}
	if list.Next != nil {
		page.More = append(page.More, listLink{"All changes that wait", "/console/changes"})
	}
	for _, listed := range list.Changes {
		c, err := v.changer().Change(v.r.Context(), listed.ID) // a list does not say who approved
		if err != nil {
			return nil, err
		}
		row := waitingRow{Kind: "change:", Name: string(c.Kind), Of: cmp.Or(c.Merchant, c.Token), Path: changePath(c.ID), Since: c.Proposed, Approvals: c.Approvals, MayNot: c.Stale}
		if row.MayNot == "" {
			s, err := v.changer().ChangeApproval(v.r.Context(), c.ID)
			if err != nil {
				return nil, err
			}
			row.MayNot = s.MayNot
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (v *visit) waitingOfWithdrawals(page *waitingPage) (rows []waitingRow, err error) {
	if v.service == nil || !v.may("withdrawalApproval") {
		return nil, nil
	}
	list, err := v.service.Withdrawals(v.r.Context(), client.WithdrawalFilter{Awaits: client.AwaitsApproval}, waitingPages)
	if err != nil {
		return nil, err
	}
	if list.Next != nil {
		page.More = append(page.More, listLink{"All withdrawals that wait for an approval", "/console/withdrawals?awaits=" + client.AwaitsApproval})
	}
	for _, w := range list.Withdrawals {
		s, err := v.service.WithdrawalApproval(v.r.Context(), w.ID)
		if err != nil {
			return nil, err
		}
		rows = append(rows, waitingRow{Kind: "withdrawal", Name: w.CallBackID, Of: w.Merchant, Path: "/console/withdrawals/" + w.ID, Amount: w.Details,
			Since: w.Decided, Approvals: w.Approvals, MayNot: s.MayNot})
	}
	return rows, nil
}

func (v *visit) waitingOfOrders(page *waitingPage) (rows []waitingRow, err error) {
	if v.gateway == nil || !v.may("orderApproval") {
		return nil, nil
	}
	ctx := v.r.Context()
	list, err := v.gateway.Orders(ctx, client.OrderFilter{State: client.OrderHeld}, waitingPages)
	if err != nil {
		return nil, err
	}
	if list.Next != nil {
		page.More = append(page.More, listLink{"All orders that are held", "/console/orders?state=held"})
	}
	for _, held := range list.Orders {
		o, err := v.gateway.Order(ctx, held.CallBackID)
		if err != nil {
			return nil, err
		}
		s, err := v.gateway.OrderApproval(ctx, o.CallBackID)
		if err != nil {
			return nil, err
		}
		rows = append(rows, waitingRow{Kind: "order", Name: o.CallBackID, Of: o.TenantUserID, Path: orderPath(o.CallBackID), Amount: &client.Details{Address: o.Address, ChainName: o.ChainName, Symbol: o.Symbol, Amount: o.Amount},
			Since: o.Created, Approvals: o.Approvals, MayNot: s.MayNot})
	}
	return rows, nil
}
