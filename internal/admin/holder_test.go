package admin

import (
	"errors"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
)

// TestAPermitBelongsToItsToken: the claim is shown to tokens that may release and have the
// origin of the one that did, and repeating it with another token gives no permit.
func TestAPermitBelongsToItsToken(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		core := api.NewStoreToken("core", client.RoleCore, 1)
		heir, stranger := api.NewStoreToken("heir", client.RoleCore, 1), api.NewStoreToken("stranger", client.RoleCore, 1)
		reader := api.NewStoreToken("reader", client.RoleViewer, 1)
		heir.Root, reader.Root = core.Root, core.Root
		with := map[string]*client.Service{}
		for _, k := range []api.Token{core, heir, stranger, reader} {
			with[k.Name] = h.with(k)
		}
		for _, role := range []client.Role{client.RoleViewer, client.RoleOperator, client.RoleAdmin} {
			with["a "+string(role)] = h.client(role)
		}
		w := acceptWithdrawal(h, newWithdrawal("acme", 1))
		h.decide(w.ID, countersign.DecisionConfirmed)
		const claim = "execution-of-w-1"
		permit := must(with["core"].ReleaseWithdrawal(ctx, w.ID, claim))(t)
		secrets.add("permit", permit.Permit.Reveal())
		for name, c := range with {
			shown, err1 := c.Withdrawal(ctx, w.ID)
			list, err2 := c.Withdrawals(ctx, client.WithdrawalFilter{Merchant: "acme"}, client.PageOptions{})
			one, err3 := c.Withdrawals(ctx, client.WithdrawalFilter{Merchant: "acme", CallBackID: w.CallBackID}, client.PageOptions{})
			feed, err4 := c.Decisions(ctx, client.FeedOptions{})
			if err := errors.Join(err1, err2, err3, err4); err != nil || len(list.Items) != 1 || len(one.Items) != 1 || len(feed.Items) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
			want := ""
			if name == "core" || name == "heir" {
				want = claim
			}
			for what, got := range map[string]client.Withdrawal{"itself": shown, "list": list.Items[0], "search": one.Items[0], "feed": feed.Items[0].Withdrawal} {
				if got.Holder != want {
					t.Errorf("%s: %s shows the claim %q", name, what, got.Holder)
				}
			}
		}
		if log := h.raw(client.RoleViewer, "GET", "/v1/audit?limit=100", "", nil); log.Status != 200 || !strings.Contains(log.Body, "withdrawal.released") || strings.Contains(log.Body, claim) {
			t.Errorf("the audit log shows the claim: %s", log.Body)
		}
		if again, err := with["heir"].ReleaseWithdrawal(ctx, w.ID, claim); err != nil || again.Permit != permit.Permit || !again.Duplicate {
			t.Errorf("another token of the same origin: %v", err)
		}
		if got, err := with["stranger"].ReleaseWithdrawal(ctx, w.ID, claim); !errors.Is(err, client.ErrConflict) {
			t.Errorf("a token of another origin: %+v, %v", got, err)
		}
		alarms, err := h.client(client.RoleViewer).Alarms(ctx, client.AlarmFilter{State: client.AlarmOpen}, client.PageOptions{})
		if err != nil || len(alarms.Items) != 1 || alarms.Items[0].Kind != client.AlarmWalletDiffers || alarms.Items[0].Subject != w.ID+" foreign_claim" {
			t.Errorf("alarms %+v, %v", alarms, err)
		}
	})
}
