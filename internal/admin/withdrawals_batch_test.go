package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
)

// Permits and outcomes of many withdrawals go in one request, on each database: each has its own
// result, with the status that the request for it alone has.
func TestReleasesAndOutcomes(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		h.merchant("other")
		admin := h.client(client.RoleAdmin)
		must(admin.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{ApproveAbove: limitsOf(t, "USDT 100")}}))(t)
		core := h.client(client.RoleCore)
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
		status := func(p *client.Problem) int {
			if p == nil {
				return 200
			}
			return p.Status
		}
		want := []int{200, 200, 409, 409, 200, 200, 200, 200, 404, 404}
		permits := make([]client.Secret, len(claims))
		for round := range 2 {
			list, err := core.ReleaseWithdrawals(ctx, claims...)
			if err != nil || len(list) != len(claims) {
				t.Fatalf("%+v, %v", list, err)
			}
			for i, r := range list {
				if status(r.Error) != want[i] || (r.Issued == nil) != (r.Error != nil) {
					t.Errorf("round %d, item %d: %+v", round, i, r)
				}
				if r.Issued == nil {
					continue
				}
				secrets.add("permit", r.Issued.Permit.Reveal())
				if r.Issued.Withdrawal.CallBackID != claims[i].CallBackID || r.Issued.Duplicate != (round == 1) || round == 1 && r.Issued.Permit != permits[i] || r.Issued.Details.Address != "TTarget" {
					t.Errorf("round %d, item %d: %+v", round, i, r.Issued)
				}
				permits[i] = r.Issued.Permit
			}
			if list[2].Error.Code != client.CodeAwaitingApproval {
				t.Errorf("above the limit: %+v", list[2].Error)
			}
		}
		foreign := claims[4]
		foreign.Holder = "two"
		list, err := core.ReleaseWithdrawals(ctx, claims[5], foreign)
		if err != nil || list[0].Issued == nil || list[1].Error == nil || list[1].Error.Faults[0].Location != "body[1].claim" {
			t.Errorf("another holder: %+v, %v", list, err)
		}
		if list, err := core.ReleaseWithdrawals(ctx, claims[0], foreign, claims[0]); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("one named twice: %+v, %v", list, err)
		}

		var ends []client.WithdrawalOutcome
		for i, c := range claims {
			ends = append(ends, client.WithdrawalOutcome{Merchant: c.Merchant, CallBackID: c.CallBackID, Outcome: client.Outcome{Permit: permits[i], Executed: &client.Executed{TxID: fmt.Sprint("0x", i)}}})
			if permits[i] == "" {
				ends[i].Permit = "none"
			}
		}
		ends[1].Permit = "guessed"
		ends[5].Executed, ends[5].Failed = nil, &client.Failed{Reason: "no funds"}
		want[1] = 409
		for round := range 2 {
			done, err := core.ReportOutcomes(ctx, ends...)
			if err != nil || len(done) != len(ends) {
				t.Fatalf("%+v, %v", done, err)
			}
			for i, r := range done {
				if status(r.Error) != want[i] || (r.Ended == nil) != (r.Error != nil) {
					t.Errorf("round %d, item %d: %+v, %v", round, i, r.Ended, r.Error)
				}
				if r.Ended != nil && (r.Ended.CallBackID != claims[i].CallBackID || r.Ended.Duplicate != (round == 1) || r.Ended.Ended == 0) {
					t.Errorf("round %d, item %d: %+v", round, i, r.Ended)
				}
			}
			if f := done[1].Error.Faults; len(f) != 1 || f[0].Location != "body[1].permit" {
				t.Errorf("a guessed permit: %+v", done[1].Error)
			}
		}
		told, err := admin.Callbacks(ctx, client.CallbackFilter{Type: countersign.TypeWithdraw}, client.PageOptions{})
		if err != nil || len(told.Callbacks) != 4 {
			t.Errorf("%d are told, %v", len(told.Callbacks), err)
		}

		// What is wrong with the request is named with its place, and nothing is done.
		h.postJSON("/v1/withdrawals/release", []any{claims[0], claims[1], claims[0]}).names(t, 422, "body[2].callBackId")
		h.postJSON("/v1/withdrawals/release", []any{}).names(t, 422, "body")
		h.postJSON("/v1/withdrawals/outcome", []any{ends[0], ends[0]}).names(t, 422, "body[1].callBackId")
		both, neither := ends[0], ends[1]
		both.Failed, neither.Executed = &client.Failed{Reason: "x"}, nil
		a := h.postJSON("/v1/withdrawals/outcome", []any{both, neither})
		a.names(t, 422, "body[0].failed")
		a.names(t, 422, "body[1].executed")
		if a := h.raw(client.RoleCore, post, "/v1/withdrawals/release", api.TypeJSON, string(encode(t, claims[0]))); a.status != 200 || !strings.Contains(a.body, `"releases":[{"issued":`) {
			t.Errorf("one alone: %d %s", a.status, a.body)
		}

		// A token learns nothing of merchants that it does not see, nor does another origin get a permit.
		bound := h.bound(client.RoleCore, "other")
		list, err = bound.ReleaseWithdrawals(ctx, claims[0], claims[8], claims[1])
		if err != nil || status(list[0].Error) != 404 || list[0].Error.Detail != list[1].Error.Detail || status(list[2].Error) != 409 {
			t.Errorf("a bound token: %+v, %v", list, err)
		}
		done, err := bound.ReportOutcomes(ctx, ends[0], ends[8])
		if err != nil || status(done[0].Error) != 404 || done[0].Error.Detail != done[1].Error.Detail {
			t.Errorf("a bound token: %+v, %v", done, err)
		}
	})
}

// An answer to the longest request fits in what a client reads, and the request in what the service takes.
func TestLongestReleases(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	list := make([]client.WithdrawalOutcome, maxBatch+1)
	long := strings.Repeat("ä", 190)
	for i := range list {
		list[i] = client.WithdrawalOutcome{Merchant: "acme", CallBackID: fmt.Sprint(long, i), Outcome: client.Outcome{Permit: "p", Executed: &client.Executed{TxID: long, FromAddress: long}}}
	}
	h.raw(client.RoleCore, post, "/v1/withdrawals/outcome", api.TypeJSON, string(encode(t, list))).names(t, 422, "body")
	done, err := h.client(client.RoleCore).ReportOutcomes(t.Context(), list[:maxBatch]...)
	if err != nil || len(done) != maxBatch || done[maxBatch-1].Error == nil {
		t.Errorf("%d results, %v", len(done), err)
	}
}
