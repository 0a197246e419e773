package admin

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
)

// An answer to the longest request fits in what a client reads, and the request in what the service takes.
func TestLongestReleases(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	list := make([]client.WithdrawalOutcome, maxBatch+1)
	long := strings.Repeat("ä", 190)
	for i := range list {
		list[i] = client.WithdrawalOutcome{Merchant: "acme", CallBackID: fmt.Sprint(long, i), Outcome: client.Outcome{Permit: "p", Executed: &client.Executed{TxID: long, FromAddress: long}}}
	}
	h.raw(client.RoleCore, post, "/v1/withdrawals/outcome", api.TypeJSON, list).Names(t, 422, "body")
	done, err := h.client(client.RoleCore).ReportOutcomes(t.Context(), list[:maxBatch]...)
	if err != nil || len(done) != maxBatch || done[maxBatch-1].Error == nil {
		t.Errorf("%d results, %v", len(done), err)
	}
}

// Permits and outcomes of many withdrawals go in one request, on each database: each has its own
// result, with the status that the request for it alone has.
func TestReleasesAndOutcomes(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		h.merchant("other")
		admin, core, bound := h.client(client.RoleAdmin), h.client(client.RoleCore), h.bound(client.RoleCore, "other")
		must(admin.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{ApproveAbove: above("USDT", "100")}}))(t)
		var claims []client.WithdrawalClaim
		for i := range 8 {
			w := newWithdrawal([]string{"acme", "other"}[i%2], i)
			if i == 2 {
				w.Details.Amount = amount("101")
			}
			if made := acceptWithdrawal(h, w); i != 3 {
				h.decide(made.ID, countersign.DecisionConfirmed)
			}
			claims = append(claims, client.WithdrawalClaim{Merchant: w.Merchant, CallBackID: w.CallBackID, Claim: client.Claim{Holder: "one"}})
		}
		claims = append(claims, client.WithdrawalClaim{Merchant: "acme", CallBackID: "unknown", Claim: client.Claim{Holder: "one"}},
			client.WithdrawalClaim{Merchant: "nobody", CallBackID: "w-1", Claim: client.Claim{Holder: "one"}})
		statuses := func(n int, of func(i int) *client.Problem) (list []int) {
			for i := range n {
				list = append(list, 200)
				if p := of(i); p != nil {
					list[i] = p.Status
				}
			}
			return list
		}
		want := []int{200, 200, 409, 409, 200, 200, 200, 200, 404, 404}
		permits := make([]client.Secret, len(claims))
		for round := range 2 {
			list := must(core.ReleaseWithdrawals(ctx, claims...))(t)
			if got := statuses(len(list), func(i int) *client.Problem { return list[i].Error }); !slices.Equal(got, want) || list[2].Error.Code != client.CodeAwaitingApproval {
				t.Fatalf("round %d: %v, want %v; above the limit: %+v", round, got, want, list[2].Error)
			}
			for i, r := range list {
				if is := r.Issued; is != nil {
					if is.Withdrawal.CallBackID != claims[i].CallBackID || is.Duplicate != (round == 1) || round == 1 && is.Permit != permits[i] || is.Details.Address != "TTarget" {
						t.Errorf("round %d, item %d: %+v", round, i, is)
					}
					permits[i] = is.Permit
				}
			}
		}
		foreign := claims[4]
		foreign.Holder = "two"
		if list := must(core.ReleaseWithdrawals(ctx, claims[5], foreign))(t); list[0].Issued == nil || list[1].Error == nil || list[1].Error.Faults[0].Location != "body[1].claim" {
			t.Errorf("another holder: %+v", list)
		}

		var ends []client.WithdrawalOutcome
		for i, c := range claims {
			ends = append(ends, client.WithdrawalOutcome{Merchant: c.Merchant, CallBackID: c.CallBackID, Outcome: client.Outcome{Permit: permits[i], Executed: &client.Executed{TxID: fmt.Sprint("0x", i)}}})
			if permits[i] == "" || i == 1 {
				ends[i].Permit = "guessed"
			}
		}
		ends[5].Executed, ends[5].Failed = nil, &client.Failed{Reason: "no funds"}
		want[1] = 409
		for round := range 2 {
			done := must(core.ReportOutcomes(ctx, ends...))(t)
			if got := statuses(len(done), func(i int) *client.Problem { return done[i].Error }); !slices.Equal(got, want) || done[1].Error.Faults[0].Location != "body[1].permit" {
				t.Fatalf("round %d: %v, want %v; a guessed permit: %+v", round, got, want, done[1].Error)
			}
			for i, r := range done {
				if r.Ended != nil && (r.Ended.CallBackID != claims[i].CallBackID || r.Ended.Duplicate != (round == 1) || r.Ended.Ended == 0) {
					t.Errorf("round %d, item %d: %+v", round, i, r.Ended)
				}
			}
		}
		if told := must(admin.Callbacks(ctx, client.CallbackFilter{Type: countersign.TypeWithdraw}, client.PageOptions{}))(t).Items; len(told) != 4 {
			t.Errorf("%d are told", len(told))
		}

		// What is wrong with the request is named with its place, and nothing is done.
		h.postJSON("/v1/withdrawals/release", []any{claims[0], claims[1], foreign, foreign}).Names(t, 422, "body[3].callBackId")
		h.postJSON("/v1/withdrawals/release", []any{}).Names(t, 422, "body")
		h.postJSON("/v1/withdrawals/outcome", []any{ends[0], ends[0]}).Names(t, 422, "body[1].callBackId")
		both, neither := ends[0], ends[1]
		both.Failed, neither.Executed = &client.Failed{Reason: "x"}, nil
		a := h.postJSON("/v1/withdrawals/outcome", []any{both, neither})
		a.Names(t, 422, "body[0].failed")
		a.Names(t, 422, "body[1].executed")

		// A token learns nothing of merchants that it does not see, nor does another origin get a permit.
		list, done := must(bound.ReleaseWithdrawals(ctx, claims[0], claims[8], claims[1]))(t), must(bound.ReportOutcomes(ctx, ends[0], ends[8]))(t)
		if list[0].Error.Status != 404 || list[0].Error.Detail != list[1].Error.Detail || list[2].Error.Status != 409 || done[0].Error.Status != 404 || done[0].Error.Detail != done[1].Error.Detail {
			t.Errorf("a bound token: %+v, %+v", list, done)
		}
	})
}

// An array of withdrawals is taken whole or not at all, in its order, on each database; the same
// again gives the same, also from several callers at once.
func TestManyWithdrawals(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		h.merchant("acme")
		h.merchant("other")
		c, ctx := h.client(client.RoleCore), t.Context()
		var list []client.NewWithdrawal
		for i := range 250 {
			list = append(list, newWithdrawal([]string{"acme", "other"}[i%2], i))
		}
		list = append(list, list[249]) // twice in one request: the second is the first
		bad := slices.Clone(list)
		bad[123].Details = &client.Details{Address: "T", ChainName: "TRON", Symbol: "USDT"}
		h.postJSON("/v1/withdrawals", bad[100:]).Names(t, 422, "body[23].details.amount")
		bad[123] = list[123]
		bad[124].Merchant = "nobody"
		h.postJSON("/v1/withdrawals", bad).Names(t, 422, "body[124].merchant")
		bad[124] = list[124]
		bad[250].TenantUserID = "another"
		h.postJSON("/v1/withdrawals", bad).Names(t, 409, "body[250].callBackId")
		if n := h.counts(); n.withdrawals != 0 || n.callbacks != 0 {
			t.Fatalf("refused, and there are %+v", n)
		}
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				made, err := c.CreateWithdrawals(ctx, list...)
				if err != nil || len(made) != len(list) || !made[250].Duplicate || made[249].ID != made[250].ID {
					t.Errorf("%d are taken: %v", len(made), err)
					return
				}
				for i, m := range made {
					if m.CallBackID != list[i].CallBackID || m.Merchant != list[i].Merchant || m.State != client.WithdrawalAwaiting || m.Ordered == nil {
						t.Errorf("%d is %+v", i, m)
					}
				}
			})
		}
		callers.Wait()
		if n := h.counts(); n.withdrawals != 250 || n.callbacks != 250 {
			t.Errorf("there are %+v, want 250 of each", n)
		}
	})
}
