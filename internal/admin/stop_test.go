package admin

import (
	"strings"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
)

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
	task := client.TaskID(client.TaskRestored, w.ID)
	dbtest.Fails(c.ApproveTask(ctx, task, "nothing became of it"))(t, client.ErrConflict, "")
	must(h.store.Reconcile(ctx, now))(t)
	for range 2 {
		must(c.ApproveTask(ctx, task, "nothing became of it"))(t)
		if got, err := c.Withdrawal(ctx, w.ID); err != nil || got.Restored || got.State != client.WithdrawalAwaiting {
			t.Errorf("%+v, %v", got, err)
		}
	}
	h.postJSON("/v1/tasks/restored."+w.ID+"/approve", `{"reason":""}`).Names(t, 422, "body.reason")
}

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
	for range 2 {
		f := must(c.Freeze(ctx, "a token was lost"))(t)
		if read := must(c.Frozen(ctx))(t); read != f || !f.Frozen || f.Reason != "a token was lost" || !strings.HasPrefix(f.By, "tok_") || f.At == 0 {
			t.Errorf("%+v, read %+v", f, read)
		}
	}
	if a := h.raw("", get, "/readyz", "", nil); a.Status != 200 || strings.TrimSpace(a.Body) != `{"status":"ready","frozen":true}` {
		t.Errorf("/readyz: %d %s", a.Status, a.Body)
	}
	dbtest.Fails(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t, client.ErrConflict, "frozen")
	if b := must(c.BlockWithdrawal(ctx, blocked.ID, "a fraud"))(t); b.State != "blocked" || b.Decision != "confirmed" || b.BlockedReason != "a fraud" || b.BlockedBy == "" || b.Ended == 0 {
		t.Errorf("blocked: %+v", b)
	}
	if f := must(c.Thaw(ctx))(t); f.Frozen || must(c.Frozen(ctx))(t) != (client.Freeze{}) {
		t.Errorf("%+v", f)
	}
	must(c.ReleaseWithdrawal(ctx, w.ID, "core-1"))(t)
	dbtest.Fails(c.ReleaseWithdrawal(ctx, blocked.ID, "core-1"))(t, client.ErrConflict, "blocked")
	dbtest.Fails(c.BlockWithdrawal(ctx, w.ID, "late"))(t, client.ErrConflict, "released")
	h.postJSON("/v1/freeze", "{}").Names(t, 422, "body.reason")
	h.postJSON("/v1/withdrawals/"+w.ID+"/block", `{"reason":""}`).Names(t, 422, "body.reason")
}
