package admin

import (
	"context"
	"errors"
	"slices"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
)

// TestLargeWithdrawal: what is above a merchant's approveAbove gets no permit before a person of
// another origin than the core approved it, by a row that has its MAC; blocking declines it.
func TestLargeWithdrawal(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		admin := h.client(client.RoleAdmin)
		if _, err := admin.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{ApproveAbove: limitsOf(t, "usdt 12, BTC 1")}}); err != nil {
			t.Fatal(err)
		}
		with := func(k api.Token) *client.Service {
			c, err := client.NewService(client.Config{URL: h.url, Token: client.Secret(h.keep(k))})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		coreToken, annToken := api.NewStoreToken("core", client.RoleAdmin, 1), api.NewStoreToken("ann", client.RoleApprover, 1)
		kinToken := api.NewStoreToken("kin", client.RoleAdmin, 1)
		kinToken.Root = coreToken.Root
		core, ann, kin := with(coreToken), with(annToken), with(kinToken)
		accept := func(n int) client.Withdrawal {
			w := newWithdrawal("acme", n)
			return acceptWithdrawal(h, w).Withdrawal
		}
		waits := func(id string) {
			t.Helper()
			_, err := core.ReleaseWithdrawal(ctx, id, "one")
			var p *client.Problem
			if !errors.As(err, &p) || p.Status != 409 || p.Code != client.CodeAwaitingApproval {
				t.Fatalf("released without an approval: %v", err)
			}
		}

		w := accept(1)
		if _, err := ann.ApproveWithdrawal(ctx, w.ID, ""); !errors.Is(err, client.ErrConflict) {
			t.Errorf("approved before it was confirmed: %v", err)
		}
		h.decide(w.ID, countersign.DecisionConfirmed)
		waits(w.ID)
		if is, err := admin.Withdrawal(ctx, w.ID); err != nil || is.Approvals == nil || is.Approvals.Missing != 1 {
			t.Errorf("%+v, %v", is.Approvals, err)
		}
		waiting := func(since db.Millis, want int) {
			t.Helper()
			if list, err := awaiting(h.store)(ctx, since, 10); err != nil || len(list) != want || want > 0 && list[0] != (api.Awaited{Of: "acme", Subject: "withdrawal " + w.ID}) {
				t.Errorf("%+v wait, %v; want %d", list, err, want)
			}
		}
		listed := func(want ...string) {
			t.Helper()
			var got []string
			for o := (client.PageOptions{Limit: 1}); ; {
				page, err := admin.Withdrawals(ctx, client.WithdrawalFilter{Awaits: client.AwaitsApproval}, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range page.Withdrawals {
					if got = append(got, w.ID); w.Approvals == nil || w.Approvals.Missing != 1 {
						t.Errorf("%+v", w.Approvals)
					}
				}
				if page.Next == nil {
					break
				}
				o.Cursor = *page.Next
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v wait for an approval, want %v", got, want)
			}
		}
		small := accept(20)
		h.decide(small.ID, countersign.DecisionDeclined)
		listed(w.ID)
		if _, err := admin.Withdrawals(ctx, client.WithdrawalFilter{Awaits: client.AwaitsApproval, CallBackID: w.CallBackID}, client.PageOptions{}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("awaits with a callBackId: %v", err)
		}
		if page, err := admin.Withdrawals(ctx, client.WithdrawalFilter{Awaits: client.AwaitsApproval, State: client.WithdrawalReleased}, client.PageOptions{}); err != nil || len(page.Withdrawals) != 0 {
			t.Errorf("%+v, %v", page, err)
		}
		waiting(db.Never, 1)
		waiting(0, 0)
		// The core's own yes is none, also with another token of it.
		for _, own := range []*client.Service{core, kin} {
			if _, err := own.ApproveWithdrawal(ctx, w.ID, ""); err != nil {
				t.Fatal(err)
			}
			waits(w.ID)
		}
		if is, err := ann.ApproveWithdrawal(ctx, w.ID, "called"); err != nil || is.Approvals == nil || is.Approvals.Missing != 0 || len(is.Approvals.Given) != 3 {
			t.Errorf("%+v, %v", is.Approvals, err)
		}
		waiting(db.Never, 0)
		p, err := core.ReleaseWithdrawal(ctx, w.ID, "one")
		if err != nil {
			t.Fatal(err)
		}
		secrets.add("permit", p.Permit.Reveal())
		if again, err := core.ReleaseWithdrawal(ctx, w.ID, "one"); err != nil || !again.Duplicate {
			t.Errorf("%+v, %v", again, err)
		}
		if _, err := ann.ApproveWithdrawal(ctx, w.ID, ""); !errors.Is(err, client.ErrConflict) {
			t.Errorf("a late approval: %v", err)
		}

		// A row that somebody wrote past the service, also a copy of another's, approves nothing.
		w = accept(2)
		h.decide(w.ID, countersign.DecisionConfirmed)
		if _, err := core.ApproveWithdrawal(ctx, w.ID, ""); err != nil {
			t.Fatal(err)
		}
		err = h.store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, `INSERT INTO approvals (id, about, token, name, at, shown, reason, mac) SELECT $1, about, $2, name, at, shown, reason, mac FROM approvals WHERE about = $3`,
				"withdrawal/"+w.ID+" "+annToken.ID, annToken.ID, "withdrawal/"+w.ID)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		waits(w.ID)
		// One that blocks it declines it.
		if _, err := ann.BlockWithdrawal(ctx, w.ID, "not ours"); err != nil {
			t.Fatal(err)
		}
		if _, err := core.ReleaseWithdrawal(ctx, w.ID, "one"); !errors.Is(err, client.ErrConflict) {
			t.Errorf("released what was blocked: %v", err)
		}
		if _, err := admin.ApproveWithdrawal(ctx, w.ID, ""); !errors.Is(err, client.ErrConflict) {
			t.Errorf("approved what was blocked: %v", err)
		}

	})
}

func limitsOf(t *testing.T, text string) client.AmountLimits {
	t.Helper()
	var p client.MerchantPatch
	for _, s := range client.Settings() {
		if s.Name != "approveAbove" {
			continue
		}
		if err := s.Set(&p, text); err != nil {
			t.Fatal(err)
		}
		if is := s.Text(&p); is != text {
			t.Errorf("%q is shown as %q", text, is)
		}
	}
	return p.ApproveAbove
}
