package gateway

import (
	"context"
	"strconv"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/book"
)

// finder collects what a search finds at the gateway, until something fails.
type finder struct {
	*api.Search
	a   *server
	err error
}

func (f *finder) deposit(d client.DepositEntry, by client.MatchedBy) {
	f.Add(client.FoundDeposit, "deposits", strconv.FormatInt(d.Seq, 10), "", by, string(d.State), d.Taken)
}

func (f *finder) order(o book.Order, by client.MatchedBy) {
	f.Add(client.FoundOrder, "orders", o.CallBackID, "", by, string(o.State), o.Created)
}

func (f *finder) address(x client.AddressEntry, by client.MatchedBy) {
	f.Add(client.FoundAddress, "addresses", strconv.FormatInt(x.Seq, 10), "", by, string(x.State), x.Taken)
}

func (f *finder) refused(r client.RefusedCallback, by client.MatchedBy) {
	if by == client.MatchedTrackingID && r.Type == countersign.TypeRequestWithdraw {
		by = client.MatchedCallBackID
	}
	f.Add(client.FoundRefused, "refused", strconv.FormatInt(r.ID, 10), "", by, string(r.State), r.First)
}

// one passes what has an id on to add, if there is such a thing.
func one[K, T any](f *finder, read func(context.Context, K) (T, error), id K, add func(T, client.MatchedBy), by client.MatchedBy) {
	if f.err != nil {
		return
	}
	v, err := read(f.Ctx, id)
	if err == nil {
		add(v, by)
	}
	f.err = api.UnlessMissing(err)
}

// some passes what the newest rows of a list have on to add.
func some[F, T any](f *finder, list func(context.Context, F, int, int64) ([]T, int64, error), filter F, most int,
	add func(T, client.MatchedBy), by client.MatchedBy) {
	var rows []T
	if f.err == nil {
		rows, _, f.err = list(f.Ctx, filter, most, 0)
	}
	for _, row := range rows {
		add(row, by)
	}
}

// find finds deposits, orders, addresses and refused callbacks.
func (a *server) find(x *api.Search) error {
	f, b, text := &finder{Search: x, a: a}, a.lists, x.Text
	const most = client.MostFound
	if n, ok := x.Number(); ok {
		one(f, b.Deposit, n, f.deposit, client.MatchedNumber)
		one(f, b.Address, n, f.address, client.MatchedNumber)
		one(f, b.RefusedRow, n, f.refused, client.MatchedID)
	}
	f.byWebhookID()
	one(f, b.Order, text, f.order, client.MatchedCallBackID)
	some(f, b.Entries, client.InboxFilter{ID: text}, most, func(e client.InboxEntry, by client.MatchedBy) {
		if e.CallBackID != "" {
			one(f, b.Order, e.CallBackID, f.order, by)
		}
	}, client.MatchedTrackingID)
	some(f, b.SearchDeposits, client.DepositSearch{TrackingID: text}, most, f.deposit, client.MatchedTrackingID)
	some(f, b.SearchDeposits, client.DepositSearch{TxID: text}, most, f.deposit, client.MatchedTxID)
	some(f, b.SearchDeposits, client.DepositSearch{TenantUserID: text}, most, f.deposit, client.MatchedUser)
	some(f, b.SearchDeposits, client.DepositSearch{Address: text}, most, f.deposit, client.MatchedAddress)
	some(f, b.Orders, client.OrderFilter{TxID: text}, most, f.order, client.MatchedTxID)
	some(f, b.Orders, client.OrderFilter{TenantUserID: text}, most, f.order, client.MatchedUser)
	some(f, b.Orders, client.OrderFilter{Address: text}, most, f.order, client.MatchedAddress)
	some(f, b.Addresses, client.AddressFilter{TenantUserID: text}, most, f.address, client.MatchedUser)
	some(f, b.Addresses, client.AddressFilter{Address: text}, most, f.address, client.MatchedAddress)
	some(f, b.Addresses, client.AddressFilter{OldAddress: text}, most, f.address, client.MatchedAddress)
	some(f, a.allRefused, client.RefusedFilter{CallbackID: text}, most, f.refused, client.MatchedTrackingID)
	if is, newest := x.Amount(); is != nil {
		some(f, b.SearchDeposits, client.DepositSearch{}, newest, func(d client.DepositEntry, by client.MatchedBy) {
			if is(d.Amount) {
				f.deposit(d, by)
			}
		}, client.MatchedAmount)
		some(f, b.Orders, client.OrderFilter{}, newest, func(o book.Order, by client.MatchedBy) {
			if is(o.Amount) {
				f.order(o, by)
			}
		}, client.MatchedAmount)
	}
	return f.err
}

// allRefused looks at all of them: they are bounded.
func (a *server) allRefused(ctx context.Context, f client.RefusedFilter, limit int, _ int64) (all []client.RefusedCallback, next int64, err error) {
	for more := true; more && err == nil; more = next > 0 {
		var page []client.RefusedCallback
		page, next, err = a.lists.RefusedList(ctx, f, limit, next)
		all = append(all, page...)
	}
	return all, 0, err
}

// byWebhookID finds what the application is told of with a webhook-id.
func (f *finder) byWebhookID() {
	feed, seq, known := book.ParseForwardID(f.Text)
	switch {
	case !known || f.err != nil:
		return
	case feed == client.FeedOfDeposits:
		one(f, f.a.lists.Deposit, seq, f.deposit, client.MatchedWebhookID)
		return
	}
	list, err := f.a.lists.Events(f.Ctx, seq-1, 1)
	if f.err = err; err != nil || len(list) == 0 || list[0].Seq != seq {
		return
	}
	switch e := list[0]; {
	case e.CallBackID != "":
		one(f, f.a.lists.Order, e.CallBackID, f.order, client.MatchedWebhookID)
	case e.Deposit != 0:
		one(f, f.a.lists.Deposit, e.Deposit, f.deposit, client.MatchedWebhookID)
	default:
		some(f, f.a.lists.Addresses, client.AddressFilter{TenantUserID: e.TenantUserID, Address: e.Address}, client.MostFound,
			f.address, client.MatchedWebhookID)
	}
}
