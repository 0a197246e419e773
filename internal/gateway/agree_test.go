package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/api"
	"countersign/internal/db"
	"countersign/internal/journal"
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

// An order of which the policy wants two approvals is confirmed when two persons have given them,
// and not before. TestTasksAgreeWithTheRule has who counts.
func TestOrderOfTwoPersons(t *testing.T) {
	rules := &wordPolicy{effect: policy.Ask, approvals: 2}
	eachRig(t, rules.use, func(t *testing.T, r *rig) {
		ctx := t.Context()
		url := r.client.url
		ann, _ := r.named(url, "ann", client.RoleApprover)
		bob, _ := r.named(url, "bob", client.RoleApprover)
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
		rules.err = errors.New("the policy is away") // nobody knows whether it ended
		r.wantToldOf(0, id(1))
		rules.err = nil
		r.wantToldOf(0)
		approves(ann, 1, client.OrderHeld, 1)
		approves(ann, 1, client.OrderHeld, 1)
		asked(1, countersign.CodeAwaitingApproval)
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
		asked(3, countersign.CodeAwaitingApproval)
		approves(ann, 3, client.OrderHeld, 1)
		r.order(4)
		asked(4, countersign.CodeAwaitingApproval)
		approves(bob, 4, client.OrderHeld, 1)
		err := r.db.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, `UPDATE votes SET about = $1, seq = 9 WHERE about = $2`, "order/"+id(4), "order/"+id(3))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		approves(bob, 4, client.OrderHeld, 1)
		asked(4, countersign.CodeAwaitingApproval)
	})
}

// about reads the records about an id, in order.
func (r *rig) about(id string) (list []journal.Entry) {
	r.t.Helper()
	about, err := r.client.AuditAbout(r.t.Context(), client.AuditAboutOptions{ID: id})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range slices.Backward(about.Items) {
		read, err := journal.Read(one.Record)
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, read)
	}
	return list
}
