package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/merchant"
)

// told is a change of an address under a trackingId of its own.
func told(id, user, chain, old, to string) *countersign.AddressChange {
	return &countersign.AddressChange{Head: countersign.Head{TrackingID: id, TenantUserID: user}, ChainName: chain, Symbol: "USDT", ToAddress: old, NewAddress: to}
}

// states gives what the list of addresses says of a user, the oldest first.
func (r *rig) addresses(user string) (list []client.AddressEntry) {
	r.t.Helper()
	for a, err := range client.All(r.t.Context(), r.client.Addresses, client.AddressFilter{TenantUserID: user}) {
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, a)
	}
	slices.Reverse(list)
	return list
}

// events gives the kinds of the events about addresses, with their addresses.
func (r *rig) addressEvents() (list []string) {
	r.t.Helper()
	events, err := r.client.Events(r.t.Context(), client.FeedOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events.Events {
		list = append(list, fmt.Sprintf("%s %s %s", e.Kind, e.TenantUserID, e.Address))
	}
	return list
}

// TestChangedAddressIsHeld: whoever replaces the address of a user gets all that the user
// deposits, so the application is not told to show it before a person accepts it.
func TestChangedAddressIsHeld(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.Callbacks.Profile.Lenient = true })
			ctx := t.Context()
			deliver := func(cb countersign.Callback) {
				t.Helper()
				if code := r.deliver(cb); code != countersign.CodeAccepted {
					t.Fatalf("errCode %d", code)
				}
			}
			deposit := countersigntest.Deposit(1) // its chain is known from here on
			deliver(deposit)
			deliver(told("c1", "u1", "TRON", "", "TFirst"))
			deliver(told("c2", "u1", "TRON", "", "TFirst")) // says nothing new
			deliver(told("c3", "u1", "ETH", "", "0xfirst")) // of another chain
			deliver(told("c4", "u1", "TRON", "", "TThief")) // does not say that it replaces one
			deliver(told("c5", "u1", "TRON", "TFirst", "TThief"))
			deliver(told("c6", "u1", "TRON", "TFirst", "TSecond"))
			deliver(told("c7", "u2", "TRON", "TOld", "TNew"))                               // the first that is heard of the user
			deliver(told("c8", deposit.TenantUserID, deposit.ChainName, "", "0xelsewhere")) // the user has deposited
			deliver(told("c9", "u3", "", "", "TAny"))
			deliver(told("c10", "u3", "TRON", "", "TOther")) // the chain of the first is not known
			var states []string
			for _, user := range []string{"u1", "u2", deposit.TenantUserID, "u3"} {
				for _, a := range r.addresses(user) {
					states = append(states, fmt.Sprintf("%s %s %s", user, a.Address, a.State))
				}
			}
			want := []string{"u1 TFirst taken", "u1 TFirst taken", "u1 0xfirst taken", "u1 TThief held", "u1 TSecond held", "u2 TNew held",
				deposit.TenantUserID + " 0xelsewhere held", "u3 TAny taken", "u3 TOther held"}
			if !slices.Equal(states, want) {
				t.Fatalf("addresses %q, want %q", states, want)
			}
			events := r.addressEvents()
			want = []string{"address.changed u1 TFirst", "address.changed u1 TFirst", "address.changed u1 0xfirst", "address.held u1 TThief", "address.held u1 TSecond",
				"address.held u2 TNew", "address.held " + deposit.TenantUserID + " 0xelsewhere", "address.changed u3 TAny", "address.held u3 TOther"}
			if !slices.Equal(events, want) {
				t.Fatalf("events %q, want %q", events, want)
			}
			r.wantAlarms(client.AlarmAddressChanged, client.AlarmAddressChanged, client.AlarmAddressChanged, client.AlarmAddressChanged) // one a user
			if s, err := r.client.Stats(ctx); err != nil || s.AddressesHeld != 5 || s.DepositsHeld != 0 {
				t.Fatalf("stats: %+v, %v", s, err)
			}

			held, err := r.client.Addresses(ctx, client.AddressFilter{State: client.AddressHeld, TenantUserID: "u1"}, client.PageOptions{})
			if err != nil || len(held.Addresses) != 2 {
				t.Fatalf("held: %+v, %v", held, err)
			}
			second, thief := held.Addresses[0], held.Addresses[1]
			if _, err := r.app.AcceptAddress(ctx, second.Seq, ""); !errors.Is(err, client.ErrForbidden) {
				t.Errorf("the application accepts: %v", err)
			}
			for range 2 { // repeating it changes nothing
				a, err := r.client.AcceptAddress(ctx, second.Seq, "asked by phone")
				if err != nil || a.State != client.AddressAccepted || a.Reason != "asked by phone" || a.DecidedBy == "" || a.OldAddress != "TFirst" {
					t.Fatalf("accepted: %+v, %v", a, err)
				}
			}
			if a, err := r.client.RejectAddress(ctx, thief.Seq, "nobody at the service did"); err != nil || a.State != client.AddressRejected {
				t.Fatalf("rejected: %+v, %v", a, err)
			}
			if _, err := r.client.AcceptAddress(ctx, thief.Seq, ""); !errors.Is(err, client.ErrConflict) {
				t.Errorf("a rejected address is accepted: %v", err)
			}
			if _, err := r.client.Address(ctx, 99); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("an unknown address: %v", err)
			}
			deliver(told("c11", "u1", "TRON", "", "TSecond")) // it counts now
			deliver(told("c12", "u1", "TRON", "", "TFirst"))  // back to the first
			events = r.addressEvents()[len(want):]
			want = []string{"address.changed u1 TSecond", "address.rejected u1 TThief", "address.changed u1 TSecond", "address.held u1 TFirst"}
			if !slices.Equal(events, want) {
				t.Fatalf("events %q, want %q", events, want)
			}
			if s, err := r.client.Stats(ctx); err != nil || s.AddressesHeld != 4 {
				t.Fatalf("stats: %+v, %v", s, err)
			}
		})
	}
}

// TestAddressWithoutTrackingID: each attempt of such a callback is another change, which a
// person decides once. With TakeAddresses nobody is asked.
func TestAddressWithoutTrackingID(t *testing.T) {
	for _, take := range []bool{false, true} {
		r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { c.TakeAddresses = take })
		change := countersigntest.Notice(countersign.TypeAddress, 1).(*countersign.AddressChange)
		for range 2 {
			body, _, err := r.service.Body(change)
			if err != nil {
				t.Fatal(err)
			}
			result := r.service.Post(t.Context(), r.to, merchant.DefaultNotifyPath, body)
			if resp, err := countersign.ParseResponse(result.Raw); err != nil || resp.ErrCode != countersign.CodeAccepted {
				t.Fatalf("errCode %d, %v", resp.ErrCode, err)
			}
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

// TestReplacedAddressIsHeld: no name of the chain, no deposit to the new address and no purge makes
// a replaced address count at once.
func TestReplacedAddressIsHeld(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			n := 0
			tell := func(user, chain, to string, want client.AddressState) {
				t.Helper()
				n++
				if code := r.deliver(told(fmt.Sprint("a", n), user, chain, to, to)); code != countersign.CodeAccepted {
					t.Fatalf("errCode %d", code)
				}
				list := r.addresses(user)
				if got := list[len(list)-1]; got.State != want || got.Address != to {
					t.Errorf("%s on %q: %+v, want %s", to, chain, got, want)
				}
			}
			for i, chain := range []string{"eth", "ETH ", "E\u200bTH", "ERC20", "Unheard"} {
				user := fmt.Sprint("u", i)
				tell(user, "ETH", "0xfirst", client.AddressTaken)
				tell(user, chain, "0xthief", client.AddressHeld)
			}
			first := countersigntest.Deposit(1)
			nothing := countersigntest.Deposit(2)
			nothing.TenantUserID, nothing.ToAddress = first.TenantUserID, "0xthief"
			nothing.Amount, _ = countersign.ParseAmount("0")
			for _, cb := range []*countersign.Deposit{first, nothing} {
				if code := r.deliver(cb); code != countersign.CodeAccepted {
					t.Fatalf("errCode %d", code)
				}
			}
			tell(first.TenantUserID, first.ChainName, "0xthief", client.AddressHeld)
			third := countersigntest.Deposit(3)
			third.TenantUserID = "purged"
			r.deliver(third)
			if err := r.db.Write(t.Context(), func(ctx context.Context, x *db.Tx) error {
				_, err := x.Exec(ctx, `DELETE FROM deposits`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			tell("purged", third.ChainName, "0xthief", client.AddressHeld)
		})
	}
}

// TestAcceptedLast: of two held addresses the one that is accepted last counts, as the application
// is told, also if it came first.
func TestAcceptedLast(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			for i, to := range []string{"TFirst", "TOlder", "TNewer"} {
				r.deliver(told(fmt.Sprint("a", i), "u", "TRON", to, to))
			}
			list := r.addresses("u")
			for _, i := range []int{2, 1} { // the newer, then the older
				if _, err := r.client.AcceptAddress(t.Context(), list[i].Seq, ""); err != nil {
					t.Fatal(err)
				}
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
}
