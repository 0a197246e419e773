package admin

import (
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/lab/dbtest"
)

// says returns what the callback called id tells the merchant.
func (h *harness) says(id string) countersign.Callback {
	h.t.Helper()
	b, _, err := countersign.Bind(must(h.store.Callback(h.t.Context(), id))(h.t).Payload, [6]byte{1})
	ok(h.t, err)
	return must(countersign.ParseCallback(b, countersign.ParseOptions{Lenient: true}))(h.t)
}

// TestAddressBecomesItsCallback: once for each changeId, under a trackingId that
// lets the merchant know it again.
func TestAddressBecomesItsCallback(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		h.merchant("other")
		c, ctx := h.client(client.RoleCore), t.Context()
		first := must(c.AddAddress(ctx, newAddress("acme", 1)))(t)
		if first.Duplicate || first.State != "pending" || first.TrackingID != "change-1" {
			t.Fatalf("%+v", first)
		}
		a, ok := h.says(first.ID).(*countersign.AddressChange)
		if !ok || a.TrackingID != "change-1" || a.TenantUserID != "user-7" || a.NewAddress != "TNew" || a.ToAddress != "TOld" || a.ChainName != "TRON" || a.Symbol != "USDT" {
			t.Errorf("the merchant is told %+v", a)
		}
		if again := must(c.AddAddress(ctx, newAddress("acme", 1)))(t); !again.Duplicate || again.ID != first.ID {
			t.Errorf("the same change again: %+v", again)
		}
		if got := must(h.client(client.RoleAdmin).Alarms(ctx, client.AlarmFilter{}, client.PageOptions{}))(t).Items; len(got) != 1 || got[0].Kind != client.AlarmAddressChanged || got[0].Subject != first.ID || got[0].Merchant != "acme" {
			t.Errorf("the change and its repetition raise %+v", got)
		}
		for _, change := range []func(*client.NewAddress){
			func(a *client.NewAddress) { a.TenantUserID = "user-8" }, func(a *client.NewAddress) { a.NewAddress = "TOther" }, func(a *client.NewAddress) { a.ToAddress = "" },
			func(a *client.NewAddress) { a.TrackingID = new(string) }, func(a *client.NewAddress) { a.Business = 1 },
		} {
			in := newAddress("acme", 1)
			change(&in)
			dbtest.Fails(c.AddAddress(ctx, in))(t, client.ErrConflict, "changeId is in use by a callback with another")
		}
		h.postJSON("/v1/addresses", []any{client.NewAddress{Merchant: "acme", ChangeID: "change-1", TenantUserID: "user-7", NewAddress: "TNew"}}).Names(t, 409, "body[0].changeId")
		// The changeId of another merchant, and a deposit under the same name, are other things.
		d, named, null := newDeposit("acme", 1), newAddress("acme", 2), newAddress("acme", 3)
		d.TrackingID, named.TrackingID, null.TrackingID = "change-1", new("address-book-9"), new(string)
		least := client.NewAddress{Merchant: "acme", ChangeID: "change-4", TenantUserID: "user-7", NewAddress: "TNew"}
		if addDeposit(h, d).Duplicate || must(c.AddAddress(ctx, newAddress("other", 1)))(t).Duplicate || must(c.AddAddress(ctx, least))(t).Duplicate {
			t.Error("other things are duplicates")
		}
		for _, in := range []client.NewAddress{named, null} {
			got := must(c.AddAddress(ctx, in))(t)
			if again := must(c.AddAddress(ctx, in))(t); got.TrackingID != *in.TrackingID || h.says(got.ID).EventID() != *in.TrackingID || got.Duplicate || !again.Duplicate {
				t.Errorf("with trackingId %q: %+v, again %+v", *in.TrackingID, got, again)
			}
		}
		h.postJSON("/v1/addresses", []any{newAddress("acme", 5), newAddress("none", 1)}).Names(t, 422, "body[1].merchant")
		if found := must(h.client(client.RoleViewer).Callbacks(ctx, client.CallbackFilter{Merchant: "acme", Type: 4}, client.PageOptions{}))(t).Items; len(found) != 4 || found[0].Name != "NOTIFY_ADDRESS" {
			t.Errorf("%+v", found)
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
			dbtest.Fails(c.ReportWaiting(ctx, w.ID, "funds"))(t, client.ErrConflict, "the withdrawal is "+state+": only a released one waits")
		}
		refused("awaiting")
		h.decide(w.ID, countersign.DecisionConfirmed)
		refused("confirmed")
		permit := must(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t)
		told := map[string]bool{}
		for _, what := range []client.WaitingFor{"funds", "fees", "funds", "funds"} {
			got := must(c.ReportWaiting(ctx, w.ID, what))(t)
			f, ok := h.says(got.Notice).(*countersign.WithdrawalNotice)
			if !ok || f.Type != map[client.WaitingFor]countersign.Type{"funds": 6, "fees": 7}[what] || f.CallBackID != "w-1" || f.TrackingID != "track-1" || f.TenantUserID != "user-7" || f.Business != 5 ||
				got.State != "released" || got.ID != w.ID || told[got.Notice] {
				t.Errorf("for %s %+v, and the merchant is told %+v", what, got, f)
			}
			told[got.Notice] = true
		}
		must(c.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0xdone"}}))(t)
		refused("executed")
		for _, id := range []string{"acme.none", "none"} {
			dbtest.Fails(c.ReportWaiting(ctx, id, "funds"))(t, client.ErrNotFound, "")
		}
	})
}
