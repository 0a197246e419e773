package gateway

import (
	"fmt"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
	"countersign/merchant"
)

// told is a change of an address under a trackingId of its own.
func told(id, user, chain, old, to string) *countersign.AddressChange {
	return &countersign.AddressChange{Head: countersign.Head{TrackingID: id, TenantUserID: user}, ChainName: chain, Symbol: "USDT", ToAddress: old, NewAddress: to}
}

// addresses gives what the list says of a user, the oldest first.
func (r *rig) addresses(user string) (list []client.AddressEntry) {
	r.t.Helper()
	list = all(r.t, client.All(r.t.Context(), r.client.Addresses, client.AddressFilter{TenantUserID: user}))
	slices.Reverse(list)
	return list
}

// addressEvents gives the kinds of the events about addresses, with their addresses.
func (r *rig) addressEvents() (list []string) {
	r.t.Helper()
	events := must(r.client.Events(r.t.Context(), client.FeedOptions{}))(r.t)
	for _, e := range events.Items {
		list = append(list, fmt.Sprintf("%s %s %s", e.Kind, e.TenantUserID, e.Address))
	}
	return list
}

// TestReplacedAddressIsHeld: whoever replaces the address of a user gets all that the user deposits, so the application
// is not told to show it before a person accepts it. No name of the chain, no deposit to the new address and no purge
// of deposits changes that.
func TestReplacedAddressIsHeld(t *testing.T) {
	const taken, held = client.AddressTaken, client.AddressHeld
	eachRig(t, func(c *Config) { c.Callbacks.Profile.Lenient = true }, func(t *testing.T, r *rig) {
		ctx := t.Context()
		first, nothing := countersigntest.Deposit(1), countersigntest.Deposit(2)
		nothing.TenantUserID, nothing.ToAddress = first.TenantUserID, "0xthief"
		nothing.Amount, _ = countersign.ParseAmount("0")
		r.deliver(first)
		r.deliver(nothing)
		r.exec(`DELETE FROM deposits`)
		var events []string
		tell := func(user, chain, old, to string, want client.AddressState) {
			t.Helper()
			r.answers(told(fmt.Sprint("c", len(events)), user, chain, old, to), countersign.CodeAccepted)
			list := r.addresses(user)
			if got := list[len(list)-1]; got.State != want || got.Address != to {
				t.Errorf("%s on %q: %+v, want %s", to, chain, got, want)
			}
			events = append(events, fmt.Sprintf("address.%s %s %s", map[client.AddressState]string{taken: "changed", held: "held"}[want], user, to))
		}
		for _, c := range []struct {
			user, chain, old, to string
			want                 client.AddressState
		}{
			{"u1", "TRON", "", "TFirst", taken},
			{"u1", "TRON", "", "TFirst", taken}, // says nothing new
			{"u1", "ETH", "", "0xfirst", taken}, // of another chain
			{"u1", "TRON", "", "TThief", held},  // does not say that it replaces one
			{"u1", "TRON", "TFirst", "TSecond", held},
			{"u2", "TRON", "TOld", "TNew", held}, // the first that is heard of the user
			{first.TenantUserID, first.ChainName, "", "0xthief", held},
			{"u3", "", "", "TAny", taken},
			{"u3", "TRON", "", "TOther", held}, // the chain of the first is not known
		} {
			tell(c.user, c.chain, c.old, c.to, c.want)
		}
		for i, chain := range []string{"eth", "ETH ", "E\u200bTH", "ERC20", "Unheard"} {
			user := fmt.Sprint("v", i)
			tell(user, "ETH", "", "0xfirst", taken)
			tell(user, chain, "", "0xthief", held)
		}
		r.deliver(told("again", "u1", "TRON", "TFirst", "TThief")) // is held already
		if got := r.addressEvents(); !slices.Equal(got, events) {
			t.Fatalf("events %q, want %q", got, events)
		}
		if s, err := r.client.Stats(ctx); err != nil || s.AddressesHeld != 10 || s.DepositsHeld != 0 {
			t.Fatalf("stats: %+v, %v", s, err)
		}
		page, err := r.client.Addresses(ctx, client.AddressFilter{State: held, TenantUserID: "u1"}, client.PageOptions{})
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("held: %+v, %v", page, err)
		}
		second, thief := page.Items[0], page.Items[1]
		for range 2 { // repeating it changes nothing
			if a := must(r.client.AcceptAddress(ctx, second.Seq, "asked by phone"))(t); a.State != client.AddressAccepted || a.Reason != "asked by phone" || a.DecidedBy == "" || a.OldAddress != "TFirst" {
				t.Fatalf("accepted: %+v", a)
			}
		}
		if a, err := r.client.RejectAddress(ctx, thief.Seq, "nobody at the service did"); err != nil || a.State != client.AddressRejected {
			t.Fatalf("rejected: %+v, %v", a, err)
		}
		dbtest.Fails(r.client.AcceptAddress(ctx, thief.Seq, ""))(t, client.ErrConflict, "")
		dbtest.Fails(r.client.Address(ctx, 99))(t, client.ErrNotFound, "")
		events = append(events, "address.changed u1 TSecond", "address.rejected u1 TThief")
		tell("u1", "TRON", "", "TSecond", taken) // it counts now
		tell("u1", "TRON", "", "TFirst", held)   // back to the first
		if got := r.addressEvents(); !slices.Equal(got, events) {
			t.Fatalf("events %q, want %q", got, events)
		}
		kinds := alarms(r, kindOf)
		if len(kinds) != 9 || slices.Min(kinds) != client.AlarmAddressChanged || slices.Max(kinds) != client.AlarmAddressChanged { // one a user
			t.Errorf("alarms %v", kinds)
		}
	})
}

// TestAddressWithoutTrackingID: each attempt of such a callback is another change, which a
// person decides once. With TakeAddresses nobody is asked.
func TestAddressWithoutTrackingID(t *testing.T) {
	for _, take := range []bool{false, true} {
		r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.TakeAddresses = take })
		change := countersigntest.Notice(countersign.TypeAddress, 1).(*countersign.AddressChange)
		for range 2 {
			r.posts(merchant.DefaultNotifyPath, r.body(change), countersign.CodeAccepted)
		}
		list := r.addresses(change.TenantUserID)
		if take {
			if len(list) != 2 || list[1].State != client.AddressTaken || list[1].Address != change.NewAddress || list[1].OldAddress != change.ToAddress ||
				list[1].ChainName != change.ChainName || list[1].Symbol != change.Symbol {
				t.Errorf("taken: %+v", list)
			}
			r.wantAlarms()
		} else if len(list) != 1 || list[0].State != client.AddressHeld {
			t.Errorf("held: %+v", list)
		}
	}
}

// TestAcceptedLast: of two held addresses the one that is accepted last counts, as the application
// is told, also if it came first.
func TestAcceptedLast(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		for i, to := range []string{"TFirst", "TOlder", "TNewer"} {
			r.deliver(told(fmt.Sprint("a", i), "u", "TRON", to, to))
		}
		list := r.addresses("u")
		for _, i := range []int{2, 1} { // the newer, then the older
			must(r.client.AcceptAddress(t.Context(), list[i].Seq, ""))(t)
		}
		events := r.addressEvents()
		if last := events[len(events)-1]; last != "address.changed u TOlder" {
			t.Fatalf("the application shows %s", last)
		}
		r.deliver(told("b", "u", "TRON", "TOlder", "TOlder"))
		r.deliver(told("c", "u", "TRON", "TNewer", "TNewer"))
		list = r.addresses("u")
		if list[3].State != client.AddressTaken || list[4].State != client.AddressHeld {
			t.Errorf("the gateway believes another one: %+v", list[3:])
		}
	})
}
