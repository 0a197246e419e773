package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
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
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
	"countersign/internal/policy"
)

// named returns a user whose token has a name and a role.
func (r *rig) named(url, name string, role client.Role) (user, api.Token) {
	k := api.NewStoreToken(name, role, 1)
	return r.withToken(url, k), k
}

// wantToldOf looks for what waits after a time from now, and wants approval_waits to stand for the
// orders with ids, and for nothing else.
func (r *rig) wantToldOf(after time.Duration, ids ...string) {
	r.t.Helper()
	ok(r.t, r.changes.TellOfWaiting(r.t.Context(), db.MillisOf(r.clock.now().Add(after))))
	list := must(r.db.StandingAlarms(r.t.Context(), client.AlarmApprovalWaits))(r.t)
	var got []string
	for _, a := range list {
		got = append(got, strings.TrimPrefix(a.Subject, "order "))
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(got, want) {
		r.t.Errorf("approval_waits stands for %d orders, %q, want %d, %q", len(got), got, len(want), want)
	}
}

// An order of which the policy wants two approvals is confirmed when two persons have given them,
// and not before; one whose approval has lost its token waits again. TestAgree of package api has who counts.
func TestOrderOfTwoPersons(t *testing.T) {
	rules := &wordPolicy{effect: policy.Ask, approvals: 2}
	eachRig(t, rules.use, func(t *testing.T, r *rig) {
		ctx := t.Context()
		url := r.client.url
		ann, _ := r.named(url, "ann", client.RoleApprover)
		bob, bobToken := r.named(url, "bob", client.RoleApprover)
		id := func(n int) string { return countersigntest.Withdrawal(n).CallBackID }
		approves := func(by user, n int, state client.OrderState, missing int) {
			t.Helper()
			r.clock.advance(time.Millisecond) // approvals of one moment have no order
			o, err := by.ApproveOrder(ctx, id(n), "looked at")
			if task := r.orderTask(n); err != nil || o.State != state || task.Missing != missing {
				t.Fatalf("%+v, %+v, %v; want %s with %d missing", o, task, err, state, missing)
			}
		}

		r.order(1)
		r.asked(1, countersign.CodeAwaitingApproval)
		r.state(1, client.OrderHeld)
		if task := r.orderTask(1); task.Needs != 2 || task.Missing != 2 || !slices.Contains(task.Could, "ann") || slices.Contains(task.Could, "operator") {
			t.Errorf("%+v", task)
		}
		r.wantToldOf(0)
		r.wantToldOf(time.Hour, id(1))
		rules.err = errors.New("the policy is away") // nobody knows whether it ended
		r.wantToldOf(0, id(1))
		rules.err = nil
		r.wantToldOf(0)
		approves(ann, 1, client.OrderHeld, 1)
		approves(ann, 1, client.OrderHeld, 1)
		r.asked(1, countersign.CodeAwaitingApproval)
		approves(bob, 1, client.OrderApproved, 0)
		r.asked(1, countersign.CodeAccepted)
		r.state(1, client.OrderConfirmed)
		if task := r.orderTask(1); len(task.Votes) != 2 || task.Votes[0].Name != "ann" || task.Votes[0].Note != "looked at" {
			t.Errorf("%+v", task)
		}
		dbtest.Fails(ann.ApproveOrder(ctx, id(1), ""))(t, client.ErrConflict, "")
		var kinds []string
		for _, e := range r.about(id(1)) {
			var answer struct{ Request, RequestOpened, Response, ResponseOpened, CallBackID string }
			switch kinds = append(kinds, e.Kind); e.Kind {
			case "order.approved":
				if e.By == nil || e.By.Role == "" || e.By.Address != "127.0.0.1" {
					t.Errorf("approved by %+v", e.By)
				}
			case "withdrawal.answered": // with both ciphertexts, before it is sent
				if err := json.Unmarshal(e.Data, &answer); err != nil || answer.CallBackID != id(1) || len(answer.Request) < 100 || len(answer.Response) < 100 ||
					!strings.Contains(answer.RequestOpened, id(1)) || !strings.Contains(answer.ResponseOpened, countersigntest.Order(1).Address) {
					t.Errorf("the answer is kept as %s, %v", e.Data, err)
				}
			}
		}
		if want := []string{"order.added", "order.held", "order.approval", "order.approved", "order.confirmed", "withdrawal.answered"}; !slices.Equal(kinds, want) {
			t.Errorf("the log has %q, want %q", kinds, want)
		}

		// An approval of another order is none of this: its digest is of the other.
		r.order(3)
		r.asked(3, countersign.CodeAwaitingApproval)
		approves(ann, 3, client.OrderHeld, 1)
		r.order(4)
		r.asked(4, countersign.CodeAwaitingApproval)
		approves(bob, 4, client.OrderHeld, 1)
		r.exec(`UPDATE votes SET about = $1, seq = 9 WHERE about = $2`, "order/"+id(4), "order/"+id(3))
		approves(bob, 4, client.OrderHeld, 1)
		r.asked(4, countersign.CodeAwaitingApproval)

		r.order(2)
		r.asked(2, countersign.CodeAwaitingApproval)
		approves(bob, 2, client.OrderHeld, 1)
		approves(ann, 2, client.OrderApproved, 0)
		if slices.Contains(ann.open(t, client.TaskOrder), "order."+id(2)) {
			t.Error("an approved order is an open task")
		}
		r.wantToldOf(0)
		r.clock.advance(time.Second)
		ok(t, api.NewTokens(r.db).Revoke(ctx, bobToken.ID, db.MillisOf(r.clock.now()), nil))
		r.wantToldOf(0, id(2), id(4))
		if task := r.orderTask(2); task.Missing != 1 || task.State != client.TaskOpen || !slices.Contains(ann.open(t, client.TaskOrder), task.ID) {
			t.Errorf("%+v", task)
		}
		r.asked(2, countersign.CodeAwaitingApproval)
	})
}

// about reads the records about an id, in order.
func (r *rig) about(id string) (list []journal.Entry) {
	r.t.Helper()
	about := must(client.Get[client.List[client.AuditEntry]](r.t.Context(), r.client, "/v1/audit/about", client.AuditAboutOptions{ID: id}))(r.t)
	for _, one := range slices.Backward(about.Items) {
		read := must(journal.Read(one.Record))(r.t)
		list = append(list, read)
	}
	return list
}

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
				for range 2 {
					n++
					rules.now.Store(&policy.Ruling{Effect: policy.Ask})
					a.clock.advance(time.Second)
					b.clock.at.Store(a.clock.at.Load())
					a.order(n)
					a.asked(n, countersign.CodeAwaitingApproval)
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
					o := must(a.client.Order(ctx, id))(t)
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
