package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/db"
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
	if err := r.api.changes.TellOfWaiting(r.t.Context(), db.MillisOf(r.clock.now().Add(after))); err != nil {
		r.t.Fatal(err)
	}
	list, err := r.db.StandingAlarms(r.t.Context(), client.AlarmApprovalWaits)
	if err != nil {
		r.t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, strings.TrimPrefix(a.Subject, "order "))
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(got, want) {
		r.t.Errorf("approval_waits stands for %d orders, %q, want %d, %q", len(got), got, len(want), want)
	}
}

// TestAllOrdersThatWaitAreToldOf: however many wait, approval_waits stands for all of them, for those
// that nobody can approve at once, and ends for those alone that do not wait any more.
func TestAllOrdersThatWaitAreToldOf(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			rules := &wordPolicy{effect: policy.Ask, approvals: 2}
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { rules.use(c) })
			var ids []string
			for n := range 510 {
				r.order(n)
				ids = append(ids, newOrder(n).CallBackID)
			}
			err := r.db.Write(ctx, func(ctx context.Context, x *db.Tx) error {
				_, err := x.Exec(ctx, `UPDATE orders SET state = 'held'`)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, after := range []time.Duration{0, time.Hour} { // one approver exists of two; and all wait for long
				r.wantToldOf(after, ids...)
				for _, i := range []int{0, 250, 500} {
					if _, err := r.client.DeclineOrder(ctx, ids[i], "no"); err != nil {
						t.Fatal(err)
					}
					ids = slices.Delete(ids, i, i+1)
					r.wantToldOf(after, ids...)
				}
				r.named(r.client.url, "ann", client.RoleApprover)
			}
			r.wantToldOf(0)
			rules.err = errors.New("the policy is away") // nobody knows whether it ended
			r.wantToldOf(0)
			r.wantToldOf(time.Hour, ids...)
			r.wantToldOf(0, ids...)
		})
	}
}

// An order of which the policy wants two approvals is confirmed when two persons have given them,
// and not before: not by one person twice, nor by a token that was revoked before the last.
func TestOrderOfTwoPersons(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			rules := &wordPolicy{effect: policy.Ask}
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { rules.use(c) })
			rules.approvals = 2
			url := r.client.url
			ann, annToken := r.named(url, "ann", client.RoleApprover)
			bob, _ := r.named(url, "bob", client.RoleApprover)
			second := api.NewStoreToken("ann again", client.RoleApprover, 1)
			second.Maker, second.Root = annToken.ID, annToken.Root
			again := r.withToken(url, second)
			id := func(n int) string { return countersigntest.Withdrawal(n).CallBackID }
			asked := func(n int, want countersign.ErrCode) {
				t.Helper()
				if code := r.deliver(countersigntest.Withdrawal(n)); code != want {
					t.Errorf("order %d: errCode %d, want %d", n, code, want)
				}
			}
			approves := func(by user, n int, state client.OrderState, missing int) {
				t.Helper()
				r.clock.advance(time.Millisecond) // approvals of one moment have no order
				o, err := by.ApproveOrder(ctx, id(n), "looked at")
				if task := r.orderTask(n); err != nil || o.State != state || task.Missing != missing {
					t.Fatalf("%+v, %+v, %v; want %s with %d missing", o, task, err, state, missing)
				}
			}

			r.order(1)
			asked(1, countersign.CodeAwaitingApproval)
			r.state(1, client.OrderHeld)
			if task := r.orderTask(1); task.Needs != 2 || task.Missing != 2 || !slices.Contains(task.Could, "ann") || slices.Contains(task.Could, "operator") {
				t.Errorf("%+v", task)
			}
			r.wantToldOf(0)
			r.wantToldOf(time.Hour, id(1))
			r.wantToldOf(0)
			approves(ann, 1, client.OrderHeld, 1)
			approves(ann, 1, client.OrderHeld, 1)
			asked(1, countersign.CodeAwaitingApproval)
			if _, err := again.ApproveOrder(ctx, id(1), ""); !errors.Is(err, client.ErrForbidden) {
				t.Errorf("one person with two tokens approved twice: %v", err)
			}
			if s, err := again.OrderApproval(ctx, id(1)); err != nil || s.MayNot == "" {
				t.Errorf("%+v, %v: that token is not told why it may not", s, err)
			}
			if s, err := ann.OrderApproval(ctx, id(1)); err != nil || s.MayNot == "" {
				t.Errorf("%+v, %v: ann is not told that she has approved it", s, err)
			}
			approves(bob, 1, client.OrderApproved, 0)
			asked(1, countersign.CodeAccepted)
			r.state(1, client.OrderConfirmed)
			if task := r.orderTask(1); len(task.Votes) != 2 || task.Votes[0].Name != "ann" || task.Votes[0].Note != "looked at" {
				t.Errorf("%+v", task)
			}
			if _, err := ann.ApproveOrder(ctx, id(1), ""); !errors.Is(err, client.ErrConflict) {
				t.Errorf("a late approval: %v", err)
			}
			var kinds []string
			for _, e := range r.about(id(1)) {
				if e.Kind != "token.created" {
					kinds = append(kinds, e.Kind)
				}
			}
			if want := []string{"order.added", "order.held", "order.approval", "order.approved", "order.confirmed", "withdrawal.answered"}; !slices.Equal(kinds, want) {
				t.Errorf("the log has %q, want %q", kinds, want)
			}

			// One who says no ends it, also one who had said yes.
			r.order(2)
			asked(2, countersign.CodeAwaitingApproval)
			approves(ann, 2, client.OrderHeld, 1)
			if _, err := ann.DeclineOrder(ctx, id(2), "no"); err != nil {
				t.Fatal(err)
			}
			if _, err := bob.ApproveOrder(ctx, id(2), ""); !errors.Is(err, client.ErrConflict) {
				t.Errorf("what was declined is approved: %v", err)
			}
			asked(2, countersign.CodeRefusedPerson)

			// The approval of a token that was revoked before the last is none.
			r.order(3)
			asked(3, countersign.CodeAwaitingApproval)
			approves(ann, 3, client.OrderHeld, 1)
			r.clock.advance(time.Second)
			if err := api.NewTokens(r.db).Revoke(ctx, annToken.ID, db.MillisOf(r.clock.now()), nil); err != nil {
				t.Fatal(err)
			}
			approves(bob, 3, client.OrderHeld, 1)
			asked(3, countersign.CodeAwaitingApproval)
			r.state(3, client.OrderHeld)
			if task := r.orderTask(3); task.Votes[0].Void == "" || task.Votes[1].Void != "" {
				t.Errorf("%+v", task)
			}
			approves(r.client, 3, client.OrderApproved, 0)

			// The policy wants more by the time that the service asks: an approval is missing again.
			rules.approvals = 3
			asked(3, countersign.CodeAwaitingApproval)
			r.state(3, client.OrderHeld)
			if task := r.orderTask(3); task.Missing != 1 {
				t.Errorf("%+v", task)
			}
			carl, _ := r.named(url, "carl", client.RoleApprover)
			approves(carl, 3, client.OrderApproved, 0)
			asked(3, countersign.CodeAccepted)

			// An approval of another order is none of this: its digest is of the other.
			rules.approvals = 2
			r.order(4)
			asked(4, countersign.CodeAwaitingApproval)
			approves(bob, 4, client.OrderHeld, 1)
			byHand := func(text string, args ...any) {
				t.Helper()
				err := r.db.Write(ctx, func(ctx context.Context, x *db.Tx) error {
					_, err := x.Exec(ctx, text, args...)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			byHand(`UPDATE approvals SET about = $1 WHERE about = $2`, "order/"+id(4), "order/"+id(3))
			approves(bob, 4, client.OrderHeld, 1)
			asked(4, countersign.CodeAwaitingApproval)
		})
	}
}

// Three persons approve at two nodes at the same time; two suffice, and the order is approved once.
func TestOrderOfTwoPersonsOnTwoNodes(t *testing.T) {
	url := dbtest.Postgres(t)
	service := newService(t, countersigntest.ServiceConfig{})
	rules := &wordPolicy{effect: policy.Ask, approvals: 2}
	a := newRig(t, url, service, func(c *Config) { rules.use(c) })
	b := newRigOn(t, openDB(t, url), service, func(c *Config) { rules.use(c) })
	for n := range 8 {
		a.order(n + 1)
		var people [3]user
		for i := range people {
			at := []*rig{a, b}[i%2]
			people[i], _ = at.named(at.client.url, "p", client.RoleApprover)
		}
		var all sync.WaitGroup
		var errs [3]error
		for i, p := range people {
			all.Go(func() { _, errs[i] = p.ApproveOrder(t.Context(), countersigntest.Withdrawal(n+1).CallBackID, "") })
		}
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Errorf("order %d: %v", n+1, err)
		}
		a.state(n+1, client.OrderApproved)
		if code := b.deliver(countersigntest.Withdrawal(n + 1)); code != countersign.CodeAccepted {
			t.Errorf("order %d: errCode %d", n+1, code)
		}
	}
}

// TestApprovalOfARevokedToken: what a token approved that was revoked since confirms nothing; the
// page says who can approve instead, and that one's approval is taken while the order is approved.
func TestApprovalOfARevokedToken(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { (&wordPolicy{effect: policy.Ask}).use(c) })
			ann, annToken := r.named(r.client.url, "ann", client.RoleApprover)
			bob, _ := r.named(r.client.url, "bob", client.RoleApprover)
			for n, asksFirst := range []bool{false, true} {
				r.order(n)
				id := countersigntest.Withdrawal(n).CallBackID
				if n == 1 {
					ann, annToken = r.named(r.client.url, "ann again", client.RoleApprover)
				}
				if o, err := ann.ApproveOrder(ctx, id, ""); err != nil || o.State != client.OrderApproved {
					t.Fatalf("%+v, %v", o, err)
				}
				if err := api.NewTokens(r.db).Revoke(ctx, annToken.ID, db.MillisOf(r.clock.now()), nil); err != nil {
					t.Fatal(err)
				}
				want := client.OrderApproved
				if asksFirst {
					want = client.OrderHeld
					if code := r.deliver(countersigntest.Withdrawal(n)); code != countersign.CodeAwaitingApproval {
						t.Fatalf("errCode %d: the approval of a revoked token confirms", code)
					}
				}
				r.state(n, want)
				if task := r.orderTask(n); task.Missing != 1 || task.Votes[0].Void == "" || !slices.Contains(task.Could, "bob") {
					t.Fatalf("%+v", task)
				}
				r.wantToldOf(0, id) // the approval lost its token
				if o, err := bob.ApproveOrder(ctx, id, ""); err != nil || o.State != client.OrderApproved || r.orderTask(n).Missing != 0 {
					t.Fatalf("%+v, %v", o, err)
				}
				r.confirmed(n)
			}
		})
	}
}
