package admin

import (
	"encoding/json"
	"regexp"
	"strings"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/outbox"
)

// finder collects what a search finds at the service.
type finder struct {
	*api.Search
	s  *Server
	of []string // the merchants of the token

	withdrawals map[[2]string]bool // that were found, by merchant and callBackId
	callbacks   []outbox.Callback
	by          []client.MatchedBy // of callbacks
}

// find finds merchants, withdrawals and callbacks.
func (s *Server) find(x *api.Search) error {
	f := &finder{Search: x, s: s, of: seen(x.Call, ""), withdrawals: map[[2]string]bool{}}
	for _, step := range []func() error{f.byID, f.byRequestUUID, f.byMembers, f.byAmount} {
		if err := step(); err != nil {
			return err
		}
	}
	for i, cb := range f.callbacks {
		if !f.withdrawals[[2]string{cb.Merchant, cb.CallBackID}] { // its page has them
			f.Add(client.FoundCallback, "callbacks", cb.ID, cb.Merchant, f.by[i], string(cb.State), cb.Created)
		}
	}
	return nil
}

func (f *finder) withdrawal(w outbox.Withdrawal, by client.MatchedBy) {
	f.withdrawals[[2]string{w.Merchant, w.CallBackID}] = true
	f.Add(client.FoundWithdrawal, "withdrawals", w.ID, w.Merchant, by, string(w.State), w.Created)
}

func (f *finder) callback(cb outbox.Callback, by client.MatchedBy) {
	f.callbacks, f.by = append(f.callbacks, cb), append(f.by, by)
}

// withdrawalOf adds a withdrawal by its id, unless there is none for the token.
func (f *finder) withdrawalOf(id string, by client.MatchedBy) error {
	w, err := f.s.Lists.Withdrawal(f.Ctx, id)
	if err == nil && f.Call.Sees(w.Merchant) {
		f.withdrawal(w, by)
	}
	return api.UnlessMissing(err)
}

// callbackOf likewise adds a callback.
func (f *finder) callbackOf(id string, by client.MatchedBy) error {
	cb, err := f.s.Lists.Callback(f.Ctx, id)
	if err == nil && f.Call.Sees(cb.Merchant) {
		f.callback(cb, by)
	}
	return api.UnlessMissing(err)
}

// byID finds by ids, and by MERCHANT/CALLBACKID.
func (f *finder) byID() error {
	if outbox.ValidMerchantID(f.Text) && f.Call.Sees(f.Text) {
		m, err := f.s.Lists.Merchant(f.Ctx, f.Text)
		if err == nil {
			f.Add(client.FoundMerchant, "merchants", m.ID, m.ID, client.MatchedID, string(m.State), m.Created)
		} else if api.UnlessMissing(err) != nil {
			return err
		}
	}
	if merchant, callBackID, ok := strings.Cut(f.Text, "/"); ok && f.Call.Sees(merchant) {
		w, err := f.s.Lists.WithdrawalByCallBackID(f.Ctx, merchant, callBackID)
		if err == nil {
			f.withdrawal(w, client.MatchedCallBackID)
		}
		return api.UnlessMissing(err)
	}
	if err := f.withdrawalOf(f.Text, client.MatchedID); err != nil {
		return err
	}
	return f.callbackOf(f.Text, client.MatchedID)
}

var uuidText = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (f *finder) byRequestUUID() error {
	if !uuidText.MatchString(f.Text) {
		return nil
	}
	ids, err := f.s.Lists.CallbacksWith(f.Ctx, strings.ToLower(f.Text))
	for _, id := range ids {
		if err == nil {
			err = f.callbackOf(id, client.MatchedRequestUUID)
		}
	}
	return err
}

// byMembers finds by the members that lists are searched by, each with its index.
func (f *finder) byMembers() error {
	for _, look := range []struct {
		by          client.MatchedBy
		callbacks   client.CallbackFilter
		withdrawals client.WithdrawalFilter // zero: their callbacks are found by it
	}{
		{by: client.MatchedTrackingID, callbacks: client.CallbackFilter{TrackingID: f.Text}},
		{by: client.MatchedCallBackID, callbacks: client.CallbackFilter{CallBackID: f.Text}},
		{client.MatchedTxID, client.CallbackFilter{TxID: f.Text}, client.WithdrawalFilter{TxID: f.Text}},
		{client.MatchedUser, client.CallbackFilter{TenantUserID: f.Text}, client.WithdrawalFilter{TenantUserID: f.Text}},
		{client.MatchedAddress, client.CallbackFilter{Address: f.Text}, client.WithdrawalFilter{Address: f.Text}},
	} {
		callbacks, err := upTo(func(cursor string) ([]outbox.Callback, string, error) {
			return f.s.Lists.Callbacks(f.Ctx, f.of, look.callbacks, client.MostFound, cursor)
		})
		if err != nil {
			return err
		}
		for _, cb := range callbacks {
			if cb.Type == countersign.TypeRequestWithdraw {
				if err := f.withdrawalOf(cb.ID, look.by); err != nil {
					return err
				}
			}
			f.callback(cb, look.by)
		}
		if look.withdrawals == (client.WithdrawalFilter{}) {
			continue
		}
		withdrawals, err := upTo(func(cursor string) ([]outbox.Withdrawal, string, error) {
			return f.s.Lists.Withdrawals(f.Ctx, f.of, look.withdrawals, client.MostFound, cursor)
		})
		if err != nil {
			return err
		}
		for _, w := range withdrawals {
			f.withdrawal(w, look.by)
		}
	}
	return nil
}

// maxFindPages is how many pages of a list a search reads: the first ones may be all of
// merchants that the token does not see.
const maxFindPages = 10

// upTo reads pages until enough was found.
func upTo[T any](page func(cursor string) ([]T, string, error)) (all []T, err error) {
	cursor := ""
	for range maxFindPages {
		list, next, err := page(cursor)
		if all = append(all, list...); err != nil || next == "" || len(all) >= client.MostFound {
			return all, err
		}
		cursor = next
	}
	return all, nil
}

func (f *finder) byAmount() error {
	is, newest := f.Amount()
	if is == nil {
		return nil
	}
	list, _, err := f.s.Lists.Withdrawals(f.Ctx, f.of, client.WithdrawalFilter{}, newest, "")
	if err != nil {
		return err
	}
	for _, w := range list {
		if w.Details != nil && is(w.Details.Amount) || w.Ordered != nil && is(w.Ordered.Amount) {
			f.withdrawal(w, client.MatchedAmount)
		}
	}
	callbacks, _, err := f.s.Lists.Callbacks(f.Ctx, f.of, client.CallbackFilter{}, newest, "")
	if err != nil {
		return err
	}
	for _, cb := range callbacks {
		var said struct {
			Amount countersign.Amount `json:"amount"`
		}
		if json.Unmarshal(cb.Payload, &said) == nil && is(said.Amount) {
			f.callback(cb, client.MatchedAmount)
		}
	}
	return nil
}
