package gateway

import (
	"context"
	"strconv"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

// finder collects what a search finds at the gateway.
type finder struct {
	*api.Search
	a *server
}

// find finds deposits, orders, addresses and refused callbacks.
func (a *server) find(x *api.Search) error {
	f := finder{x, a}
	for _, step := range []func() error{f.byNumber, f.byWebhookID, f.byCallback, f.inDeposits, f.inOrders, f.inAddresses, f.inRefused, f.byAmount} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (f finder) deposit(d client.DepositEntry, by client.MatchedBy) {
	f.Add(client.FoundDeposit, "deposits", strconv.FormatInt(d.Seq, 10), "", by, string(d.State), d.Taken)
}

func (f finder) order(o book.Order, by client.MatchedBy) {
	f.Add(client.FoundOrder, "orders", o.CallBackID, "", by, string(o.State), o.Created)
}

func (f finder) address(x client.AddressEntry, by client.MatchedBy) {
	f.Add(client.FoundAddress, "addresses", strconv.FormatInt(x.Seq, 10), "", by, string(x.State), x.Taken)
}

func (f finder) refused(r book.Refused, by client.MatchedBy) {
	f.Add(client.FoundRefused, "refused", strconv.FormatInt(r.Seq, 10), "", by, string(r.State), r.First)
}

// found passes v on to add if there is one.
func found[T any](v T, err error, add func(T, client.MatchedBy), by client.MatchedBy) error {
	if err == nil {
		add(v, by)
	}
	return api.UnlessMissing(err)
}

// look is a filter of a list, and the member that it is by.
type look[F any] struct {
	by     client.MatchedBy
	filter F
}

// inList passes what a list has on to add, for each look.
func inList[F, T any](f finder, list func(context.Context, F, int, int64) ([]T, int64, error), add func(T, client.MatchedBy), looks ...look[F]) error {
	for _, l := range looks {
		rows, _, err := list(f.Ctx, l.filter, client.MostFound, 0)
		if err != nil {
			return err
		}
		for _, row := range rows {
			add(row, l.by)
		}
	}
	return nil
}

func (f finder) byNumber() error {
	n, ok := f.Number()
	if !ok {
		return nil
	}
	d, err := f.a.lists.Deposit(f.Ctx, n)
	if err = found(d, err, f.deposit, client.MatchedNumber); err != nil {
		return err
	}
	x, err := f.a.lists.Address(f.Ctx, n)
	if err = found(x, err, f.address, client.MatchedNumber); err != nil {
		return err
	}
	r, err := f.a.lists.Refused(f.Ctx, n, false)
	return found(r, err, f.refused, client.MatchedID)
}

// byWebhookID finds what the application is told of with a webhook-id.
func (f finder) byWebhookID() error {
	feed, seq, known := book.ParseForwardID(f.Text)
	switch {
	case !known:
		return nil
	case feed == client.FeedOfDeposits:
		d, err := f.a.lists.Deposit(f.Ctx, seq)
		return found(d, err, f.deposit, client.MatchedWebhookID)
	}
	list, err := f.a.lists.Events(f.Ctx, seq-1, 1)
	if err != nil || len(list) == 0 || list[0].Seq != seq {
		return err
	}
	switch e := list[0]; {
	case e.CallBackID != "":
		o, err := f.a.lists.Order(f.Ctx, e.CallBackID)
		return found(o, err, f.order, client.MatchedWebhookID)
	case e.Deposit != 0:
		d, err := f.a.lists.Deposit(f.Ctx, e.Deposit)
		return found(d, err, f.deposit, client.MatchedWebhookID)
	default:
		return inList(f, f.a.lists.Addresses, f.address, look[client.AddressFilter]{client.MatchedWebhookID, client.AddressFilter{TenantUserID: e.TenantUserID, Address: e.Address}})
	}
}

// byCallback finds orders by their callBackId, and by the trackingId of a callback about them.
func (f finder) byCallback() error {
	o, err := f.a.lists.Order(f.Ctx, f.Text)
	if err = found(o, err, f.order, client.MatchedCallBackID); err != nil {
		return err
	}
	list, _, err := f.a.lists.Entries(f.Ctx, client.InboxFilter{ID: f.Text}, client.MostFound, 0)
	for _, e := range list {
		if err != nil || e.CallBackID == "" {
			continue
		}
		o, missing := f.a.lists.Order(f.Ctx, e.CallBackID)
		err = found(o, missing, f.order, client.MatchedTrackingID)
	}
	return err
}

func (f finder) inDeposits() error {
	return inList(f, f.a.lists.SearchDeposits, f.deposit,
		look[client.DepositSearch]{client.MatchedTrackingID, client.DepositSearch{TrackingID: f.Text}}, look[client.DepositSearch]{client.MatchedTxID, client.DepositSearch{TxID: f.Text}},
		look[client.DepositSearch]{client.MatchedUser, client.DepositSearch{TenantUserID: f.Text}}, look[client.DepositSearch]{client.MatchedAddress, client.DepositSearch{Address: f.Text}})
}

func (f finder) inOrders() error {
	return inList(f, f.a.lists.Orders, f.order,
		look[client.OrderFilter]{client.MatchedTxID, client.OrderFilter{TxID: f.Text}}, look[client.OrderFilter]{client.MatchedUser, client.OrderFilter{TenantUserID: f.Text}},
		look[client.OrderFilter]{client.MatchedAddress, client.OrderFilter{Address: f.Text}})
}

func (f finder) inAddresses() error {
	return inList(f, f.a.lists.Addresses, f.address,
		look[client.AddressFilter]{client.MatchedUser, client.AddressFilter{TenantUserID: f.Text}}, look[client.AddressFilter]{client.MatchedAddress, client.AddressFilter{Address: f.Text}},
		look[client.AddressFilter]{client.MatchedAddress, client.AddressFilter{OldAddress: f.Text}})
}

// inRefused looks at all of them: they are bounded.
func (f finder) inRefused() error {
	for before := int64(0); ; {
		list, next, err := f.a.lists.RefusedList(f.Ctx, client.RefusedFilter{CallbackID: f.Text}, client.MostFound, before)
		for _, r := range list {
			by := client.MatchedTrackingID
			if r.Type == countersign.TypeRequestWithdraw {
				by = client.MatchedCallBackID
			}
			f.refused(r, by)
		}
		if err != nil || next == 0 {
			return err
		}
		before = next
	}
}

func (f finder) byAmount() error {
	is, newest := f.Amount()
	if is == nil {
		return nil
	}
	deposits, _, err := f.a.lists.SearchDeposits(f.Ctx, client.DepositSearch{}, newest, 0)
	for _, d := range deposits {
		if is(d.Amount) {
			f.deposit(d, client.MatchedAmount)
		}
	}
	if err != nil {
		return err
	}
	orders, _, err := f.a.lists.Orders(f.Ctx, client.OrderFilter{}, newest, 0)
	for _, o := range orders {
		if is(o.Amount) {
			f.order(o, client.MatchedAmount)
		}
	}
	return err
}
