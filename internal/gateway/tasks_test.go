package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/lab/dbtest"
	"countersign/internal/policy"
)

// What people do through tasks, with what became of the thing.

func then[T, K any](ctx context.Context, err error, read func(context.Context, K) (T, error), of K) (v T, _ error) {
	if err != nil {
		return v, err
	}
	return read(ctx, of)
}

func (u user) ApproveOrder(ctx context.Context, id, reason string) (client.Order, error) {
	_, err := u.ApproveTask(ctx, client.TaskID(client.TaskOrder, id), reason)
	return then(ctx, err, u.Order, id)
}

func (u user) DeclineOrder(ctx context.Context, id, reason string) (client.Order, error) {
	_, err := u.DeclineTask(ctx, client.TaskID(client.TaskOrder, id), reason)
	return then(ctx, err, u.Order, id)
}

func (u user) CreditDeposit(ctx context.Context, id int64, reason string) (client.DepositEntry, error) {
	_, err := u.ApproveTask(ctx, client.DepositTask(id), reason)
	return then(ctx, err, u.Deposit, id)
}

func (u user) RejectDeposit(ctx context.Context, id int64, reason string) (client.DepositEntry, error) {
	_, err := u.DeclineTask(ctx, client.DepositTask(id), reason)
	return then(ctx, err, u.Deposit, id)
}

func (u user) Address(ctx context.Context, id int64) (client.AddressEntry, error) {
	return client.Get[client.AddressEntry](ctx, u, client.Path("addresses", id))
}

func (u user) RefusedCallback(ctx context.Context, id int64) (client.RefusedCallback, error) {
	return client.Get[client.RefusedCallback](ctx, u, client.Path("refused", id))
}

func (u user) AcceptAddress(ctx context.Context, id int64, reason string) (client.AddressEntry, error) {
	_, err := u.ApproveTask(ctx, client.TaskID(client.TaskAddress, fmt.Sprint(id)), reason)
	return then(ctx, err, u.Address, id)
}

func (u user) RejectAddress(ctx context.Context, id int64, reason string) (client.AddressEntry, error) {
	_, err := u.DeclineTask(ctx, client.TaskID(client.TaskAddress, fmt.Sprint(id)), reason)
	return then(ctx, err, u.Address, id)
}

func (u user) RetryRefused(ctx context.Context, id int64, reason string) (client.RefusedCallback, error) {
	_, err := u.ApproveTask(ctx, client.TaskID(client.TaskRefused, fmt.Sprint(id)), reason)
	return then(ctx, err, u.RefusedCallback, id)
}

func (u user) DismissRefused(ctx context.Context, id int64, reason string) (client.RefusedCallback, error) {
	_, err := u.DeclineTask(ctx, client.TaskID(client.TaskRefused, fmt.Sprint(id)), reason)
	return then(ctx, err, u.RefusedCallback, id)
}

func (u user) OrderApproval(ctx context.Context, id string) (client.Task, error) {
	return u.Task(ctx, client.TaskID(client.TaskOrder, id))
}

// open lists the ids of the open tasks of a kind, the newest first.
func (u user) open(t *testing.T, kind client.TaskKind) (ids []string) {
	t.Helper()
	for _, x := range all(t, client.All(t.Context(), u.Tasks, client.TaskFilter{Kind: kind})) {
		ids = append(ids, x.ID)
	}
	return ids
}

// TestTasks: held deposits and orders are open tasks, whose state follows what people do; copies of one transfer are
// credited by themselves alone. Package tasks has the pages, and the answers to many.
func TestTasks(t *testing.T) {
	eachRig(t, func(c *Config) { (&wordPolicy{effect: policy.Ask}).use(c) }, func(t *testing.T, r *rig) {
		ctx := t.Context()
		for n := 1; n <= 2; n++ {
			again := countersigntest.Deposit(n)
			r.deliver(countersigntest.Deposit(n))
			again.TrackingID += "-again"
			r.deliver(again)
			r.order(n)
			r.deliver(countersigntest.Withdrawal(n))
			r.clock.advance(time.Second)
		}
		approver := r.withRole(r.client.url, client.RoleApprover)
		open := func(want ...string) {
			t.Helper()
			if got := approver.open(t, ""); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				t.Errorf("open are %q, want %q", got, want)
			}
		}
		open("deposit.2", "deposit.4", "order.order-1", "order.order-2")
		for _, x := range all(t, client.All(ctx, approver.Tasks, client.TaskFilter{})) {
			if x.Missing != 1 || len(x.Could) == 0 || x.MayNot != "" || strings.Join(x.May, " ") != "approve decline note" {
				t.Errorf("%+v", x)
			}
		}
		both := client.DecideTasks{IDs: []string{"deposit.2", "deposit.4"}, Reason: "looked at", DryRun: true}
		for _, dry := range []bool{true, false} {
			both.DryRun = dry
			if done := must(approver.DecideMany(ctx, "approve", both))(t); done.Done != 0 || done.LeftOut != 2 || !strings.Contains(done.Tasks[0].Why, "by itself") {
				t.Fatalf("copies of one transfer were credited together: %+v", done)
			}
		}
		must(approver.CreditDeposit(ctx, 2, "looked at"))(t)
		if done, err := approver.DecideMany(ctx, "decline", client.DecideTasks{IDs: []string{"deposit.4", "deposit.1", "deposit.99"}}); err != nil || done.Done != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		open("order.order-1", "order.order-2")
		if d, err := r.client.Deposit(ctx, 4); err != nil || d.State != client.DepositRejected {
			t.Errorf("%+v, %v", d, err)
		}
		// An approved order is done, although its row waits for the service.
		must(approver.ApproveTask(ctx, "order.order-1", "yes"))(t)
		must(approver.DeclineTask(ctx, "order.order-2", "no"))(t)
		open()
		for state, want := range map[client.TaskState]string{client.TaskDone: "order.order-1", client.TaskDeclined: "order.order-2"} {
			p, err := approver.Tasks(ctx, client.TaskFilter{State: state, Kind: client.TaskOrder}, client.PageOptions{})
			if err != nil || len(p.Items) != 1 || p.Items[0].ID != want || len(p.Items[0].Votes) != 1 || p.Items[0].Votes[0].Origin == "" {
				t.Errorf("%s are %+v, %v", state, p.Items, err)
			}
		}
		for _, wrong := range []string{"deposit", "deposit.", "deposit.x", "deposit.0", "none.1", "order.none", "release.a.b"} {
			dbtest.Fails(approver.Task(ctx, wrong))(t, client.ErrNotFound)
		}
		// Notes are in the log too. Those about an order with a slash are found as well.
		o := newOrder(3)
		o.CallBackID = "o/1"
		must(r.app.AddOrder(ctx, o))(t)
		for _, id := range []string{"order.o/1", "deposit.1"} {
			if task, err := approver.NoteTask(ctx, id, "seen on the chain"); err != nil || len(task.Votes) != 1 || task.Votes[0].Note != "seen on the chain" || task.Votes[0].Verdict != "" {
				t.Errorf("%+v, %v", task, err)
			}
		}
		dbtest.Fails(approver.NoteTask(ctx, "deposit.9", "x"))(t, client.ErrNotFound)
		if r.records(`"order.noted"`) != 1 || r.records(`"deposit.noted"`) != 1 || r.records("seen on the chain") != 2 {
			t.Error("the audit log has other notes")
		}
	})
}

// TestTwoTransfers: a held deposit whose amount or user differs from that of the first is said to be
// perhaps another transfer, and one that differs in nothing to be the same; both are shown.
func TestTwoTransfers(t *testing.T) {
	r := newRig(t, dialects[0].url(t), newService(t, countersigntest.ServiceConfig{}), nil)
	for i, c := range []struct{ id, amount, user, says string }{
		{"first", "2", "7", "the deposit is not held"},
		{"same", "2.0", "7", "name the same transfer"},
		{"amount", "77.5", "7", "another amount: perhaps two transfers; look at the chain"},
		{"user", "2", "8", "another user: perhaps two transfers; look at the chain"},
		{"amount user", "78.5", "8", "another amount and user: perhaps two transfers"},
	} {
		of := countersigntest.Deposit(1)
		of.TxIndex, of.TrackingID, of.Amount, of.TenantUserID = -1, c.id, amount(t, c.amount), c.user
		r.deliver(of)
		task, err := r.client.Task(t.Context(), client.DepositTask(int64(i+1)))
		if err != nil || !strings.Contains(task.Why+task.MayNot, c.says) || i > 1 && strings.Contains(task.Why, "the same transfer") {
			t.Errorf("%s: %q, %+v, %v", c.id, task.Why, task.Content, err)
		}
		for _, m := range task.Content {
			if (m.Name == "amount" || m.Name == "user") && (m.Beside == "" || m.Differs() != strings.Contains(c.id, m.Name)) {
				t.Errorf("%s: %+v", c.id, m)
			}
		}
	}
}
