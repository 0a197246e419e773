package admin

import (
	"errors"
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
)

// TestFreezeAndBlock: the freeze is shown with its reason and its token, releases get
// 409 meanwhile and the probes go on; a blocked withdrawal is never released.
func TestFreezeAndBlock(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	c, ctx := h.client(client.RoleAdmin), t.Context()
	w, blocked := acceptWithdrawal(h, newWithdrawal("acme", 1)), acceptWithdrawal(h, newWithdrawal("acme", 2))
	h.decide(w.ID, countersign.DecisionConfirmed)
	h.pass(45_000_000_000) // the leases that decide left
	must(h.store.Sweep(ctx, 1_750_000_045_000))(t)
	h.decide(blocked.ID, countersign.DecisionConfirmed)

	if f, err := c.Frozen(ctx); err != nil || f != (client.Freeze{}) {
		t.Errorf("%+v, %v", f, err)
	}
	for range 2 {
		f, err := c.Freeze(ctx, "a token was lost")
		if err != nil || !f.Frozen || f.Reason != "a token was lost" || !strings.HasPrefix(f.By, "tok_") || f.At == 0 {
			t.Errorf("%+v, %v", f, err)
		}
		if read, err := c.Frozen(ctx); err != nil || read != f {
			t.Errorf("read %+v, %v", read, err)
		}
	}
	if a := h.raw("", get, "/readyz", "", nil); a.status != 200 || strings.TrimSpace(a.body) != `{"status":"ready","frozen":true}` {
		t.Errorf("/readyz: %d %s", a.status, a.body)
	}
	var p *client.Problem
	if _, err := c.ReleaseWithdrawal(ctx, w.ID, "core-1"); !errors.Is(err, client.ErrConflict) || !errors.As(err, &p) || !strings.Contains(p.Detail, "frozen") {
		t.Errorf("released while frozen: %v", err)
	}
	if b, err := c.BlockWithdrawal(ctx, blocked.ID, "a fraud"); err != nil || b.State != "blocked" || b.Decision != "confirmed" || b.BlockedReason != "a fraud" || b.BlockedBy == "" || b.Ended == 0 {
		t.Errorf("blocked: %+v, %v", b, err)
	}
	if f, err := c.Thaw(ctx); err != nil || f.Frozen {
		t.Errorf("%+v, %v", f, err)
	}
	if permit, err := c.ReleaseWithdrawal(ctx, w.ID, "core-1"); err != nil || permit.Withdrawal.State != "released" {
		t.Errorf("after the thaw: %+v, %v", permit, err)
	}
	if _, err := c.ReleaseWithdrawal(ctx, blocked.ID, "core-1"); !errors.As(err, &p) || p.Status != 409 || !strings.Contains(p.Detail, "blocked") {
		t.Errorf("releasing what is blocked: %v", err)
	}
	if page, err := c.Withdrawals(ctx, client.WithdrawalFilter{State: "blocked"}, client.PageOptions{}); err != nil || len(page.Withdrawals) != 1 {
		t.Errorf("listed %+v, %v", page, err)
	}
	h.postJSON("/v1/freeze", "{}").names(t, 422, "body.reason")
	h.postJSON("/v1/withdrawals/"+w.ID+"/block", `{"reason":""}`).names(t, 422, "body.reason")
	if a := h.postJSON("/v1/withdrawals/"+w.ID+"/block", `{"reason":"late"}`); a.status != 409 || !strings.Contains(a.Detail, "released") {
		t.Errorf("blocking what is released: %d %s", a.status, a.body)
	}
}

// TestResumeWithdrawal: a withdrawal from before a restore shows it until a person resumes it,
// which nobody can before the restore is reconciled.
func TestResumeWithdrawal(t *testing.T) {
	h := sqlite(t)
	h.merchant("acme")
	c, ctx := h.client(client.RoleAdmin), t.Context()
	w := acceptWithdrawal(h, newWithdrawal("acme", 1))
	now := db.MillisOf(h.now())
	must(h.store.Restored(ctx, 0, now))(t)
	if got, err := c.Withdrawal(ctx, w.ID); err != nil || !got.Restored {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := resumeWithdrawal(c, ctx, w.ID, "nothing became of it"); !errors.Is(err, client.ErrConflict) {
		t.Errorf("while it is not reconciled: %v", err)
	}
	must(h.store.Reconcile(ctx, now))(t)
	for range 2 {
		if got, err := resumeWithdrawal(c, ctx, w.ID, "nothing became of it"); err != nil || got.Restored || got.State != client.WithdrawalAwaiting {
			t.Errorf("%+v, %v", got, err)
		}
	}
	h.postJSON("/v1/tasks/restored."+w.ID+"/approve", `{"reason":""}`).names(t, 422, "body.reason")
}
