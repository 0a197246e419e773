package admin

import (
	"errors"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
)

// says returns what the callback called id tells the merchant.
func (h *harness) says(id string) countersign.Callback {
	h.t.Helper()
	kept, err := h.store.Callback(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	b, _, err := countersign.Bind(kept.Payload, [6]byte{1})
	if err != nil {
		h.t.Fatal(err)
	}
	return must(countersign.ParseCallback(b, countersign.ParseOptions{Lenient: true}))(h.t)
}

// TestAddressBecomesItsCallback: once for each changeId, under a trackingId that
// lets the merchant know it again.
func TestAddressBecomesItsCallback(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		h.merchant("other")
		c, ctx := h.client(client.RoleCore), t.Context()
		first, err := c.AddAddress(ctx, newAddress("acme", 1))
		if err != nil || first.Duplicate || first.State != "pending" || first.ChangeID != "change-1" || first.TrackingID != "change-1" {
			t.Fatalf("%+v, %v", first, err)
		}
		a, ok := h.says(first.ID).(*countersign.AddressChange)
		if !ok || a.TrackingID != "change-1" || a.TenantUserID != "user-7" || a.NewAddress != "TNew" || a.ToAddress != "TOld" ||
			a.ChainName != "TRON" || a.Symbol != "USDT" {
			t.Errorf("the merchant is told %+v", a)
		}
		if again, err := c.AddAddress(ctx, newAddress("acme", 1)); err != nil || !again.Duplicate || again.ID != first.ID {
			t.Errorf("the same change again: %+v, %v", again, err)
		}
		if got, err := h.client(client.RoleAdmin).Alarms(ctx, client.AlarmFilter{}, client.PageOptions{}); err != nil || len(got.Alarms) != 1 || got.Alarms[0].Kind != client.AlarmAddressChanged ||
			got.Alarms[0].Subject != first.ID || got.Alarms[0].Merchant != "acme" {
			t.Errorf("the change and its repetition raise %+v, %v", got, err)
		}
		for name, change := range map[string]func(*client.NewAddress){
			"user":       func(a *client.NewAddress) { a.TenantUserID = "user-8" },
			"newAddress": func(a *client.NewAddress) { a.NewAddress = "TOther" },
			"toAddress":  func(a *client.NewAddress) { a.ToAddress = "" },
			"trackingId": func(a *client.NewAddress) { a.TrackingID = new(string) },
			"business":   func(a *client.NewAddress) { a.Business = 1 },
		} {
			in := newAddress("acme", 1)
			change(&in)
			var p *client.Problem
			if _, err := c.AddAddress(ctx, in); !errors.As(err, &p) || p.Status != 409 || len(p.Faults) != 1 || p.Faults[0].Location != "body.changeId" {
				t.Errorf("the same changeId with another %s: %v", name, err)
			}
		}
		if elsewhere, err := c.AddAddress(ctx, newAddress("other", 1)); err != nil || elsewhere.Duplicate {
			t.Errorf("the changeId of another merchant: %+v, %v", elsewhere, err)
		}
		// A deposit under the same name is another thing.
		d := newDeposit("acme", 1)
		d.TrackingID = "change-1"
		if list, err := c.AddDeposits(ctx, d); err != nil || list[0].Duplicate {
			t.Errorf("a deposit called like a change: %+v, %v", list, err)
		}

		named, null := newAddress("acme", 2), newAddress("acme", 3)
		own := "address-book-9"
		named.TrackingID, null.TrackingID = &own, new(string)
		if got, err := c.AddAddress(ctx, named); err != nil || got.TrackingID != own || h.says(got.ID).EventID() != own {
			t.Errorf("with a trackingId: %+v, %v", got, err)
		}
		if got, err := c.AddAddress(ctx, null); err != nil || got.TrackingID != "" || h.says(got.ID).EventID() != "" {
			t.Errorf("with an empty trackingId: %+v, %v", got, err)
		}
		if again, err := c.AddAddress(ctx, null); err != nil || !again.Duplicate {
			t.Errorf("with an empty trackingId, again: %+v, %v", again, err)
		}
		least := client.NewAddress{Merchant: "acme", ChangeID: "change-4", TenantUserID: "user-7", NewAddress: "TNew"}
		if got, err := c.AddAddress(ctx, least); err != nil || got.Duplicate {
			t.Errorf("with the least: %+v, %v", got, err)
		}
		h.raw(client.RoleCore, post, "/v1/addresses", api.TypeJSON, string(encode(t, newAddress("none", 1)))).names(t, 422, "body.merchant")
		found, err := h.client(client.RoleViewer).Callbacks(ctx, client.CallbackFilter{Merchant: "acme", Type: 4}, client.PageOptions{})
		if err != nil || len(found.Callbacks) != 4 || found.Callbacks[0].Name != "NOTIFY_ADDRESS" {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// TestWaiting: a released withdrawal waits, as often as the wallet core says so,
// and no other does.
func TestWaiting(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		c, ctx := h.client(client.RoleCore), t.Context()
		in := newWithdrawal("acme", 1)
		in.TrackingID, in.Business = "track-1", 5
		w := acceptWithdrawal(h, in)
		refused := func(state string) {
			t.Helper()
			var p *client.Problem
			_, err := c.ReportWaiting(ctx, w.ID, "funds")
			if want := "the withdrawal is " + state + ": only a released one waits"; !errors.As(err, &p) || p.Status != 409 || p.Detail != want {
				t.Errorf("%v, want 409 %q", err, want)
			}
		}
		refused("awaiting")
		h.decide(w.ID, countersign.DecisionConfirmed)
		refused("confirmed")
		permit := must(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t)
		secrets.add("permit", permit.Permit.Reveal())
		told := map[string]bool{}
		for _, what := range []client.WaitingFor{"funds", "fees", "funds", "funds"} {
			got, err := c.ReportWaiting(ctx, w.ID, what)
			if err != nil || got.State != "released" || got.ID != w.ID || told[got.Notice] {
				t.Fatalf("%+v, %v", got, err)
			}
			told[got.Notice] = true
			f, ok := h.says(got.Notice).(*countersign.WithdrawalNotice)
			if !ok || f.Type != map[client.WaitingFor]countersign.Type{"funds": 6, "fees": 7}[what] || f.CallBackID != "w-1" ||
				f.TrackingID != "track-1" || f.TenantUserID != "user-7" || f.Business != 5 {
				t.Errorf("for %s the merchant is told %+v", what, f)
			}
		}
		must(c.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0xdone"}}))(t)
		refused("executed")
		for typ, want := range map[countersign.Type]int{6: 3, 7: 1} {
			found, err := h.client(client.RoleViewer).Callbacks(ctx, client.CallbackFilter{Merchant: "acme", CallBackID: "w-1", Type: typ}, client.PageOptions{})
			if err != nil || len(found.Callbacks) != want {
				t.Errorf("%d callbacks of type %d, want %d, %v", len(found.Callbacks), typ, want, err)
			}
		}
		for _, id := range []string{"acme.none", "none"} {
			if _, err := c.ReportWaiting(ctx, id, "funds"); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}
