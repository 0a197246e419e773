package admin

import (
	"context"
	"errors"
	"sync"
	"testing"

	"countersign"
	"countersign/client"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/lab/endtest"
	"countersign/internal/outbox"
)

// TestApprovalsAtTheSameMoment: the approval of a large withdrawal meets something else at the same
// moment, on one node with SQLite and on two with PostgreSQL. Whichever is first, the withdrawal, its
// task and the release say one thing, and there is one permit at most.
func TestApprovalsAtTheSameMoment(t *testing.T) {
	for _, d := range []struct {
		name  string
		nodes func(t *testing.T) (a, b *harness)
	}{
		{"sqlite", func(t *testing.T) (a, b *harness) { a = sqlite(t); return a, a }},
		{"postgres", func(t *testing.T) (a, b *harness) {
			url := endtest.Postgres(outbox.End())(t)
			return newHarness(t, url), newHarness(t, url)
		}},
	} {
		t.Run(d.name, func(t *testing.T) {
			a, b := d.nodes(t)
			ctx, n := t.Context(), 0
			a.merchant("acme")
			limit := func(text string) error {
				return b.store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
					_, err := b.store.ChangeMerchant(ctx, x, "acme", db.MillisOf(b.now()), func(m *outbox.Merchant) error {
						m.ApproveAbove = above("USDT", text)
						return nil
					})
					return err
				})
			}
			core, atB := a.client(client.RoleCore), b.client(client.RoleAdmin)
			permits := map[string]bool{}
			release := func(id string) bool {
				p, err := core.ReleaseWithdrawal(ctx, id, "one")
				if err != nil && !errors.Is(err, client.ErrConflict) {
					t.Error(err)
				}
				if err == nil {
					permits[p.Permit.Reveal()] = true
				}
				return err == nil
			}
			for _, c := range []struct {
				name  string
				other func(id string, ann api.Token) error // at node b
				gives bool                                 // whether there is a permit in the end
				task  client.TaskState
			}{
				{"another approval", func(id string, _ api.Token) error {
					_, err := atB.ApproveTask(ctx, releaseTask(id), "")
					return err
				}, true, client.TaskDone},
				{"blocked", func(id string, _ api.Token) error {
					_, err := atB.BlockWithdrawal(ctx, id, "not ours")
					return err
				}, false, client.TaskDeclined},
				{"the token is revoked", func(_ string, ann api.Token) error {
					return b.kept.Revoke(ctx, ann.ID, db.MillisOf(b.now()), nil)
				}, false, client.TaskOpen},
				{"the token's holder is not an approver", func(_ string, ann api.Token) error {
					return b.store.Write(ctx, func(ctx context.Context, x *db.Tx) error {
						_, err := x.Exec(ctx, `UPDATE tokens SET role = 'viewer' WHERE id = $1`, ann.ID)
						return err
					})
				}, false, client.TaskOpen},
				{"the limit is raised", func(string, api.Token) error { return limit("1000") }, true, client.TaskDone},
				{"frozen", func(string, api.Token) error {
					_, err := atB.Freeze(ctx, "a test")
					return err
				}, false, client.TaskDone},
				{"released", func(id string, _ api.Token) error {
					release(id)
					return nil
				}, true, client.TaskDone},
			} {
				for range 4 {
					n++
					ok(t, limit("12"))
					w := must(core.CreateWithdrawal(ctx, newWithdrawal("acme", n)))(t)
					id := w.Withdrawal.ID
					a.decide(id, countersign.DecisionConfirmed)
					annToken := api.NewStoreToken("ann", client.RoleApprover, 1)
					ann := a.with(annToken)
					clear(permits)
					var both sync.WaitGroup
					var approved, did error
					both.Go(func() { _, approved = ann.ApproveTask(ctx, releaseTask(id), "") })
					both.Go(func() { did = c.other(id, annToken) })
					both.Wait()
					if approved != nil && !errors.Is(approved, client.ErrConflict) && !errors.Is(approved, client.ErrForbidden) && !errors.Is(approved, client.ErrUnauthorized) {
						t.Errorf("%s: %v", c.name, approved)
					}
					if did != nil {
						t.Errorf("%s: %v", c.name, did)
					}
					task, err := atB.Task(ctx, releaseTask(id))
					if err != nil || task.State != c.task || (task.Missing > 0) != (c.task == client.TaskOpen) {
						t.Errorf("%s: approving: %v; the task is %+v, %v", c.name, approved, task, err)
					}
					for range 2 {
						if is := release(id); is != c.gives {
							t.Errorf("%s: released: %v", c.name, is)
						}
					}
					if want := map[bool]int{true: 1}[c.gives]; len(permits) != want {
						t.Errorf("%s: %d permits, want %d", c.name, len(permits), want)
					}
					must(atB.Thaw(ctx))(t)
				}
			}
		})
	}
}
