package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/outbox"
)

// searched returns what a search finds: kind, id and what matched of each.
func searched(t *testing.T, by *client.Service, text string) (list []string) {
	t.Helper()
	r, err := by.Search(t.Context(), text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	for _, f := range r.Found {
		list = append(list, fmt.Sprint(f.Kind, " ", f.ID, " ", f.Matched))
	}
	return list
}

// TestSearch: one text finds whatever has it, each thing once; a
// bound token finds what is its merchants' and nothing else.
func TestSearch(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx, core, admin := t.Context(), h.client(client.RoleCore), h.client(client.RoleAdmin)
		h.merchant("a")
		h.merchant("b")
		d := newDeposit("a", 1)
		d.Amount = amount("7")
		first := addDeposit(h, d)
		h.pass(time.Second)
		w, err := core.CreateWithdrawal(ctx, newWithdrawal("b", 1))
		if err != nil {
			t.Fatal(err)
		}
		h.decide(w.ID, countersign.DecisionConfirmed)
		permit := must(core.ReleaseWithdrawal(ctx, w.ID, "one"))(t)
		h.pass(time.Second)
		must(core.ReportOutcome(ctx, w.ID, client.Outcome{Permit: permit.Permit, Executed: &client.Executed{TxID: "0xdone", FromAddress: "TFrom"}}))(t)
		// An attempt that failed.
		now := db.MillisOf(h.now())
		claimed, err := h.store.Claim(ctx, outbox.ClaimRequest{Lane: countersign.LaneNotify, Node: "test", Now: now, LeaseUntil: now + 45_000, Max: 1})
		if err != nil || len(claimed) != 1 || claimed[0].Merchant != "a" && claimed[0].Merchant != "b" {
			t.Fatal(claimed, err)
		}
		failed := claimed[0].ID
		must(h.store.Settle(ctx, []outbox.Settlement{{Merchant: claimed[0].Merchant, CallbackID: failed, State: client.CallbackPending, Due: now + 1000, MerchantVersion: claimed[0].MerchantVersion,
			Attempt: outbox.Attempt{Attempt: client.Attempt{Number: 1, RequestUUID: "11111111-0000-8000-8000-00000000000f", Started: now, Result: "retry", Reason: "connect", Node: "test"}}}}, now))(t)
		bound := h.bound(client.RoleViewer, "a")
		cb, of := "callback "+first.ID, "withdrawal "+w.ID
		for _, c := range []struct {
			text      string
			all, some []string // of an admin, of a token that is bound to a
		}{
			{"a", []string{"merchant a id"}, []string{"merchant a id"}},
			{"b", []string{"merchant b id"}, nil},
			{"  " + first.ID + "\n", []string{cb + " id"}, []string{cb + " id"}},
			{w.ID, []string{of + " id"}, nil},
			{"b/w-1", []string{of + " callBackId"}, nil},
			{"dep-1", []string{cb + " trackingId"}, []string{cb + " trackingId"}},
			{"0xabc1", []string{cb + " txId"}, []string{cb + " txId"}},
			{"TTo", []string{cb + " address"}, []string{cb + " address"}},
			{"w-1", []string{of + " callBackId"}, nil},
			{"TTarget", []string{of + " address"}, nil},
			{"0xdone", []string{of + " txId"}, nil},
			{"user-7", []string{of + " tenantUserId", cb + " tenantUserId"}, []string{cb + " tenantUserId"}},
			{"11111111-0000-8000-8000-00000000000F", []string{"callback " + failed + " requestUUID"}, []string{"callback " + failed + " requestUUID"}},
			{"nothing", nil, nil}, {"%", nil, nil}, {"'; DROP TABLE merchants; --", nil, nil}, {".", nil, nil}, {"/", nil, nil}, {"-1", nil, nil}, {"+1", nil, nil},
			{strings.Repeat("x", 1024), nil, nil}, {strings.Repeat("9", 80), nil, nil},
		} {
			if got := searched(t, admin, c.text); !slices.Equal(got, c.all) {
				t.Errorf("%q finds %q, want %q", c.text, got, c.all)
			}
			if got := searched(t, bound, c.text); !slices.Equal(got, c.some) {
				t.Errorf("%q finds %q for a bound token, want %q", c.text, got, c.some)
			}
		}
		for _, text := range []string{"", " ", "a\x00b", strings.Repeat("x", 1025)} {
			if r, err := admin.Search(ctx, text); (err == nil) != (text == " ") || len(r.Found) > 0 {
				t.Errorf("%q: %+v, %v", text, r, err)
			}
		}
	})
}

// TestSearchIsBounded: however much there is, a search gives the newest 50, and a token finds what
// is its own behind the many of others.
func TestSearchIsBounded(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("a")
		h.merchant("b")
		addDeposit(h, newDeposit("a", 0))
		for i := range 600 {
			h.pass(time.Second)
			addDeposit(h, newDeposit("b", i+1))
		}
		if got := searched(t, h.client(client.RoleViewer), "user-7"); len(got) != client.MostFound {
			t.Errorf("found %d", len(got))
		}
		if got := searched(t, h.bound(client.RoleViewer, "a"), "user-7"); len(got) != 1 {
			t.Errorf("a bound token found %q", got)
		}
	})
}
