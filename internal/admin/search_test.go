package admin

import (
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

// TestSearch: one text finds whatever has it, each thing once and at most 50; a bound token finds what is its
// merchants' and nothing else, behind the many of others too.
func TestSearch(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx, core, admin := t.Context(), h.client(client.RoleCore), h.client(client.RoleAdmin)
		h.merchant("a")
		h.merchant("b")
		first := addDeposit(h, newDeposit("a", 1))
		h.pass(time.Second)
		w := must(core.CreateWithdrawal(ctx, newWithdrawal("b", 1)))(t)
		h.decide(w.ID, countersign.DecisionConfirmed)
		permit := must(core.ReleaseWithdrawal(ctx, w.ID, "one"))(t)
		must(core.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0xdone", FromAddress: "TFrom"}}))(t)
		// An attempt that failed.
		now := db.MillisOf(h.now())
		failed := must(h.store.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Now: now, LeaseUntil: now + 45_000, Max: 1}))(t)[0]
		must(h.store.Settle(ctx, []outbox.Settlement{{Merchant: failed.Merchant, CallbackID: failed.ID, State: client.CallbackPending, Due: now + 1000, MerchantVersion: failed.MerchantVersion,
			Attempt: outbox.Attempt{Attempt: client.Attempt{Number: 1, RequestUUID: "11111111-0000-8000-8000-00000000000f", Started: now, Result: "retry", Reason: "connect", Node: "test"}}}}, now))(t)
		bound := h.bound(client.RoleViewer, "a")
		cb, of := "callback "+first.ID, "withdrawal "+w.ID
		for text, want := range map[string][]string{
			"a": {"merchant a id"}, "b": {"merchant b id"}, "  " + first.ID + "\n": {cb + " id"}, w.ID: {of + " id"}, "b/w-1": {of + " callBackId"},
			"dep-1": {cb + " trackingId"}, "0xabc1": {cb + " txId"}, "TTo": {cb + " address"}, "w-1": {of + " callBackId"}, "TTarget": {of + " address"}, "0xdone": {of + " txId"},
			"user-7": {of + " tenantUserId", cb + " tenantUserId"}, "11111111-0000-8000-8000-00000000000F": {"callback " + failed.ID + " requestUUID"},
			"nothing": nil, "%": nil, "'; DROP TABLE merchants; --": nil, ".": nil, "/": nil, "-1": nil, " ": nil, strings.Repeat("x", 1024): nil, strings.Repeat("9", 80): nil,
		} {
			if got := endtest.Searched(t, admin, text); !slices.Equal(got, want) {
				t.Errorf("%q finds %q, want %q", text, got, want)
			}
			want = slices.DeleteFunc(slices.Clone(want), func(found string) bool { return strings.Contains(found, " b") }) // ids begin with the merchant's
			if got := endtest.Searched(t, bound, text); !slices.Equal(got, want) {
				t.Errorf("%q finds %q for a bound token, want %q", text, got, want)
			}
		}
		for _, text := range []string{"", "a\x00b", strings.Repeat("x", 1025)} {
			if r, err := client.Get[client.List[client.Found]](ctx, admin, "/v1/search", struct{ Q string }{text}); err == nil {
				t.Errorf("%q: %+v", text, r)
			}
		}
		h.pass(time.Second)
		var others []client.NewDeposit
		for i := range 600 {
			others = append(others, newDeposit("b", i+2))
		}
		must(core.AddDeposits(ctx, others...))(t)
		if all, own := endtest.Searched(t, admin, "user-7"), endtest.Searched(t, bound, "user-7"); len(all) != client.MostFound || len(own) != 1 {
			t.Errorf("found %d, and for a bound token %q", len(all), own)
		}
	})
}
