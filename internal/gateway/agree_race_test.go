package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/book"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// changedPolicy is a policy whose ruling changes while others ask it.
type changedPolicy struct{ now atomic.Pointer[policy.Ruling] }

func (p *changedPolicy) use(c *Config) {
	c.decides = func(context.Context, policy.Request) (policy.Ruling, error) { return *p.now.Load(), nil }
}

// TestVotesAtTheSameMoment: an approval meets something else at the same moment, on one node with
// SQLite and on two with PostgreSQL. Whichever is first, the order ends in a state that one of both
// orders gives, its task says the same, and the service is told what that state says, for good.
func TestVotesAtTheSameMoment(t *testing.T) {
	rules := &changedPolicy{}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			url, service := d.url(t), newService(t, countersigntest.ServiceConfig{})
			a := newRig(t, url, service, rules.use)
			b := a
			if d.name == "postgres" {
				b = newRig(t, url, service, rules.use)
			}
			ctx, n := t.Context(), 0
			void := map[client.OrderState]countersign.ErrCode{client.OrderHeld: countersign.CodeAwaitingApproval, client.OrderApproved: countersign.CodeAwaitingApproval}
			for _, c := range []struct {
				name  string
				other func(id string, ann api.Token, second user) error // at node b
				ends  map[client.OrderState]countersign.ErrCode         // what the service is told in the end
			}{
				{"another approval", func(id string, _ api.Token, second user) error {
					_, err := second.ApproveOrder(ctx, id, "")
					return err
				}, map[client.OrderState]countersign.ErrCode{client.OrderApproved: countersign.CodeAccepted}},
				{"declined", func(id string, _ api.Token, second user) error {
					_, err := second.DeclineOrder(ctx, id, "no")
					return err
				}, map[client.OrderState]countersign.ErrCode{client.OrderDeclined: countersign.CodeRefusedPerson}},
				{"cancelled", func(id string, _ api.Token, _ user) error {
					_, err := b.app.CancelOrder(ctx, id, "")
					return err
				}, map[client.OrderState]countersign.ErrCode{client.OrderCancelled: countersign.CodeOrderCancelled}},
				{"expired", func(id string, _ api.Token, _ user) error {
					_, err := b.book.ChangeOrder(ctx, book.OrderChange{CallBackID: id, From: client.OrderHeld, To: client.OrderExpired}, db.MillisOf(b.clock.now()))
					if errors.Is(err, book.ErrChanged) { // it was approved first
						return nil
					}
					return err
				}, map[client.OrderState]countersign.ErrCode{client.OrderExpired: countersign.CodeOrderCancelled, client.OrderApproved: countersign.CodeAccepted}},
				{"the token is revoked", func(_ string, ann api.Token, _ user) error {
					return api.NewTokens(b.db).Revoke(ctx, ann.ID, db.MillisOf(b.clock.now()), nil)
				}, void},
				{"the token's holder is not an approver", func(_ string, ann api.Token, _ user) error {
					return b.db.Write(ctx, func(ctx context.Context, x *db.Tx) error {
						_, err := x.Exec(ctx, `UPDATE tokens SET role = 'viewer' WHERE id = $1`, ann.ID)
						return err
					})
				}, void},
				{"the policy wants two", func(string, api.Token, user) error {
					rules.now.Store(&policy.Ruling{Effect: policy.Ask, Approvals: 2})
					return nil
				}, void},
				{"the policy denies", func(string, api.Token, user) error {
					rules.now.Store(&policy.Ruling{Effect: policy.Deny})
					return nil
				}, map[client.OrderState]countersign.ErrCode{client.OrderHeld: countersign.CodeRefusedPolicy, client.OrderApproved: countersign.CodeRefusedPolicy}},
				{"the service asks", func(string, api.Token, user) error {
					b.deliver(countersigntest.Withdrawal(n))
					return nil
				}, map[client.OrderState]countersign.ErrCode{client.OrderApproved: countersign.CodeAccepted, client.OrderConfirmed: countersign.CodeAccepted}},
			} {
				for range 3 {
					n++
					rules.now.Store(&policy.Ruling{Effect: policy.Ask})
					a.clock.advance(time.Second)
					b.clock.at.Store(a.clock.at.Load())
					a.order(n)
					if code := a.deliver(countersigntest.Withdrawal(n)); code != countersign.CodeAwaitingApproval {
						t.Fatalf("errCode %d", code)
					}
					id := countersigntest.Withdrawal(n).CallBackID
					ann, annToken := a.named(a.client.url, "ann", client.RoleApprover)
					second, _ := b.named(b.client.url, "bob", client.RoleApprover)
					var both sync.WaitGroup
					var approved, did error
					both.Go(func() { _, approved = ann.ApproveOrder(ctx, id, "") })
					both.Go(func() { did = c.other(id, annToken, second) })
					both.Wait()
					if approved != nil && !errors.Is(approved, client.ErrConflict) && !errors.Is(approved, client.ErrForbidden) && !errors.Is(approved, client.ErrUnauthorized) {
						t.Errorf("%s: %v", c.name, approved)
					}
					if did != nil {
						t.Errorf("%s: %v", c.name, did)
					}
					a.clock.advance(time.Second) // a node knows a token for a second
					b.clock.at.Store(a.clock.at.Load())
					o, err := a.client.Order(ctx, id)
					if err != nil {
						t.Fatal(err)
					}
					want, allowed := c.ends[o.State]
					if !allowed {
						t.Errorf("%s: the order is %s; approving: %v", c.name, o.State, approved)
						continue
					}
					task, err := b.client.OrderApproval(ctx, id)
					is := map[client.OrderState]client.TaskState{client.OrderDeclined: client.TaskDeclined, client.OrderCancelled: client.TaskStale, client.OrderExpired: client.TaskExpired}[o.State]
					switch {
					case is != "":
					case want == countersign.CodeAwaitingApproval:
						is = client.TaskOpen
					default:
						is = client.TaskDone
					}
					if err != nil || task.State != is || (task.Missing > 0) != (is == client.TaskOpen) {
						t.Errorf("%s: the order is %s, and its task %+v, %v", c.name, o.State, task, err)
					}
					for _, node := range []*rig{a, b, a} {
						if code := node.deliver(countersigntest.Withdrawal(n)); code != want {
							t.Errorf("%s: the order is %s, and the service is told %d, want %d", c.name, o.State, code, want)
						}
					}
				}
			}
		})
	}
}
