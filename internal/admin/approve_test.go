package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

// TestLargeWithdrawal: what is above a merchant's approveAbove gets no permit before a person of
// another origin than the core approved it. TestApprovalsAtTheSameMoment blocks one.
func TestLargeWithdrawal(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.merchant("acme")
		admin := h.client(client.RoleAdmin)
		must(admin.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{ApproveAbove: append(above("usdt", "12"), above("BTC", "1")...)}}))(t)
		coreToken, annToken := api.NewStoreToken("core", client.RoleAdmin, 1), api.NewStoreToken("ann", client.RoleApprover, 1)
		kinToken := api.NewStoreToken("kin", client.RoleAdmin, 1)
		kinToken.Root = coreToken.Root
		core, ann, kin := h.with(coreToken), h.with(annToken), h.with(kinToken)
		accept := func(n int) client.Withdrawal {
			return must(core.CreateWithdrawal(ctx, newWithdrawal("acme", n)))(t).Withdrawal
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
		dbtest.Fails(ann.ApproveTask(ctx, releaseTask(w.ID), ""))(t, client.ErrConflict, "")
		h.decide(w.ID, countersign.DecisionConfirmed)
		waits(w.ID)
		if task, err := admin.Task(ctx, releaseTask(w.ID)); err != nil || task.Missing != 1 {
			t.Errorf("%+v, %v", task, err)
		}
		listed := func(want ...string) {
			t.Helper()
			var got []string
			for _, x := range pages(t, func(o client.PageOptions) ([]client.Task, *string, error) {
				o.Limit = 1
				page, err := admin.Tasks(ctx, client.TaskFilter{Kind: client.TaskRelease}, o)
				return page.Items, page.Next, err
			}) {
				if got = append(got, x.About); x.Missing != 1 || x.Merchant != "acme" || x.State != client.TaskOpen {
					t.Errorf("%+v", x)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v wait for an approval, want %v", got, want)
			}
		}
		small := accept(20)
		h.decide(small.ID, countersign.DecisionDeclined)
		listed(w.ID)
		second := accept(21)
		h.decide(second.ID, countersign.DecisionConfirmed)
		listed(second.ID, w.ID)
		must(ann.DeclineTask(ctx, releaseTask(second.ID), "no"))(t)
		listed(w.ID)
		if page, err := admin.Tasks(ctx, client.TaskFilter{Kind: client.TaskRelease, State: client.TaskDone}, client.PageOptions{}); err != nil || len(page.Items) != 0 {
			t.Errorf("%+v, %v", page, err)
		}
		if page, err := ann.Tasks(ctx, client.TaskFilter{Awaits: "me", Merchant: "acme"}, client.PageOptions{}); err != nil || len(page.Items) != 1 {
			t.Errorf("%+v, %v", page, err)
		}
		h.wantToldOf(0)
		h.wantToldOf(2*time.Hour, w.ID)
		h.wantToldOf(0)
		// The core's own yes is none, also with another token of it: it is refused, and not offered.
		for _, own := range []*client.Service{core, kin} {
			dbtest.Fails(own.ApproveTask(ctx, releaseTask(w.ID), ""))(t, client.ErrForbidden, "")
			if s, err := own.Task(ctx, releaseTask(w.ID)); err != nil || !strings.Contains(s.MayNot, "asked for this") {
				t.Errorf("%+v, %v", s, err)
			}
			waits(w.ID)
		}
		if _, err := ann.ApproveTask(ctx, releaseTask(w.ID), "called"); err != nil {
			t.Error(err)
		}
		if task, err := ann.Task(ctx, releaseTask(w.ID)); err != nil || task.Needs != 1 || task.Missing != 0 || len(task.Votes) != 1 {
			t.Errorf("%+v, %v", task, err)
		}
		h.wantToldOf(2 * time.Hour)
		must(core.ReleaseWithdrawal(ctx, w.ID, "one"))(t)
		if again, err := core.ReleaseWithdrawal(ctx, w.ID, "one"); err != nil || !again.Duplicate {
			t.Errorf("%+v, %v", again, err)
		}
		dbtest.Fails(ann.ApproveTask(ctx, releaseTask(w.ID), ""))(t, client.ErrConflict, "")

		// What needed no approval is no task, also once it is released.
		little := newWithdrawal("acme", 30)
		little.Details.Amount = amount("1")
		id := must(core.CreateWithdrawal(ctx, little))(t).ID
		h.decide(id, countersign.DecisionConfirmed)
		must(core.ReleaseWithdrawal(ctx, id, "one"))(t)
		if page := must(admin.Tasks(ctx, client.TaskFilter{Kind: client.TaskRelease, State: client.TaskDone}, client.PageOptions{}))(t); len(page.Items) != 1 || page.Items[0].About != w.ID {
			t.Errorf("%+v", page)
		}
	})
}

// wantToldOf looks for what waits after a time from now, and wants approval_waits to stand for the
// withdrawals with ids, and for nothing else.
func (h *harness) wantToldOf(after time.Duration, ids ...string) {
	h.t.Helper()
	ctx := context.Background()
	ok(h.t, h.control.TellOfWaiting(ctx, db.MillisOf(h.now().Add(after))))
	list := must(h.store.StandingAlarms(ctx, client.AlarmApprovalWaits))(h.t)
	var got []string
	for _, a := range list {
		if got = append(got, strings.TrimPrefix(a.Subject, "withdrawal ")); a.Merchant != "acme" || a.Number != 1 {
			h.t.Errorf("%+v", a)
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(got, want) {
		h.t.Errorf("approval_waits stands for %d withdrawals, %q, want %d, %q", len(got), got, len(want), want)
	}
}

// above returns limits of one symbol.
func above(symbol, limit string) client.AmountLimits {
	return client.AmountLimits{{Symbol: symbol, Above: amount(limit)}}
}

// TestStuckWithdrawal: whoever made the core's token is refused, with the way out; while nobody else is there the
// withdrawal says so. That of a revoked token is not worth a permit any more. TestAgree of both ends has the counts.
func TestStuckWithdrawal(t *testing.T) {
	h := sqlite(t)
	ctx := t.Context()
	h.merchant("acme")
	boss, made := api.NewStoreToken("boss", client.RoleAdmin, 1), api.NewStoreToken("core", client.RoleCore, 2)
	ann := api.NewStoreToken("ann", client.RoleApprover, 4) // another origin, though the same person made it
	made.Maker, ann.Maker = boss.ID, boss.ID
	admin, core := h.with(boss), h.with(made)
	first := must(h.kept.ByHash(ctx, api.HashToken(h.tokens[client.RoleAdmin])))(t)
	ok(t, h.kept.Revoke(ctx, first.ID, 3, nil)) // only boss could approve
	must(admin.UpdateMerchant(ctx, "acme", client.MerchantPatch{MerchantSettings: client.MerchantSettings{ApproveAbove: above("USDT", "12")}}))(t)
	w := must(core.CreateWithdrawal(ctx, newWithdrawal("acme", 1)))(t)
	h.decide(w.ID, countersign.DecisionConfirmed)
	if task := must(admin.Task(ctx, releaseTask(w.ID)))(t); task.Missing != 1 || task.Nobody == "" {
		t.Errorf("%+v", task)
	}
	h.wantToldOf(0, w.ID)
	dbtest.Fails(admin.ApproveTask(ctx, releaseTask(w.ID), ""))(t, client.ErrForbidden, "another approver must")
	dbtest.Fails(core.ReleaseWithdrawal(ctx, w.ID, "one"))(t, client.ErrConflict, "token new")
	must(h.with(ann).ApproveTask(ctx, releaseTask(w.ID), "called"))(t)
	h.wantToldOf(0)
	ok(t, h.kept.Revoke(ctx, ann.ID, db.MillisOf(h.now()), nil))
	dbtest.Fails(core.ReleaseWithdrawal(ctx, w.ID, "one"))(t, client.ErrConflict, "")
	must(h.with(api.NewStoreToken("bob", client.RoleApprover, 5)).ApproveTask(ctx, releaseTask(w.ID), ""))(t)
	must(core.ReleaseWithdrawal(ctx, w.ID, "one"))(t)
}
