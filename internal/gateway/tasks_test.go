package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
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
	for x, err := range client.All(t.Context(), u.Tasks, client.TaskFilter{Kind: kind}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	return ids
}

// TestTasksInPages: tasks of all kinds come the newest first, each once, whatever the size of the
// pages, and leave the list of open ones once decided.
func TestTasksInPages(t *testing.T) {
	eachRig(t, func(c *Config) { (&wordPolicy{effect: policy.Ask}).use(c) }, func(t *testing.T, r *rig) {
		ctx := t.Context()
		for n := range 5 {
			again := countersigntest.Deposit(n + 1)
			r.deliver(countersigntest.Deposit(n + 1))
			again.TrackingID += "-again"
			r.deliver(again)
			r.order(n + 1)
			r.deliver(countersigntest.Withdrawal(n + 1))
			r.clock.advance(time.Second)
		}
		approver := r.withRole(r.client.url, client.RoleApprover)
		var whole []string
		for _, limit := range []int{1, 3, 200} {
			var ids []string
			opened := client.Time(db.Never)
			for cursor := ""; ; {
				p, err := approver.Tasks(ctx, client.TaskFilter{}, client.PageOptions{Limit: limit, Cursor: cursor})
				if err != nil || len(p.Items) > limit {
					t.Fatal(len(p.Items), err)
				}
				for _, x := range p.Items {
					if x.Opened > opened || x.State != client.TaskOpen || x.Missing != 1 || len(x.Could) == 0 || x.MayNot != "" || strings.Join(x.May, " ") != "approve decline note" {
						t.Errorf("%+v", x)
					}
					opened = x.Opened
					ids = append(ids, x.ID)
				}
				if p.Next == nil {
					break
				}
				cursor = *p.Next
			}
			if len(ids) != 10 || whole != nil && strings.Join(ids, " ") != strings.Join(whole, " ") {
				t.Fatalf("pages of %d: %q, others %q", limit, ids, whole)
			}
			whole = ids
		}
		if _, err := approver.DeclineTask(ctx, whole[0], "no"); err != nil {
			t.Fatal(err)
		}
		if left := approver.open(t, ""); strings.Join(left, " ") != strings.Join(whole[1:], " ") {
			t.Errorf("%q", left)
		}
		// An approved order is done, although its row waits for the service.
		order := whole[slices.IndexFunc(whole, func(id string) bool { return strings.HasPrefix(id, "order.") && id != whole[0] })]
		if _, err := approver.ApproveTask(ctx, order, "yes"); err != nil {
			t.Fatal(err)
		}
		if left := approver.open(t, ""); slices.Contains(left, order) || len(left) != len(whole)-2 {
			t.Errorf("%s is open still: %q", order, left)
		}
		if p, err := approver.Tasks(ctx, client.TaskFilter{State: client.TaskDone}, client.PageOptions{}); err != nil || len(p.Items) != 1 || p.Items[0].ID != order {
			t.Errorf("done are %+v, %v", p.Items, err)
		}
		p, err := approver.Tasks(ctx, client.TaskFilter{State: client.TaskDeclined}, client.PageOptions{})
		if err != nil || len(p.Items) != 1 || p.Items[0].ID != whole[0] || len(p.Items[0].Votes) != 1 || p.Items[0].Votes[0].Verdict != "decline" || p.Items[0].Votes[0].Note != "no" || p.Items[0].Votes[0].Origin == "" {
			t.Errorf("%+v, %v", p, err)
		}
		for _, wrong := range []string{"deposit", "deposit.", "deposit.x", "deposit.0", "none.1", "order.none", "release.a.b"} {
			if _, err := approver.Task(ctx, wrong); err == nil {
				t.Errorf("there is a task %s", wrong)
			} else {
				wantProblem(t, err, http.StatusNotFound)
			}
		}
		_, err = approver.Tasks(ctx, client.TaskFilter{}, client.PageOptions{Cursor: "x"})
		wantProblem(t, err, http.StatusUnprocessableEntity, "cursor")
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

func seqIDs(seqs ...int64) (ids []string) {
	for _, s := range seqs {
		ids = append(ids, "deposit."+strconv.FormatInt(s, 10))
	}
	return ids
}

// firstOf returns the number of the first deposit that names the transfer of another one, as the
// task about that shows it; empty: none.
func (r *rig) firstOf(seq int64) string {
	r.t.Helper()
	task, err := r.client.Task(r.t.Context(), client.DepositTask(seq))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range task.Content {
		if m.Name == "deposit no." {
			return m.Beside
		}
	}
	return ""
}
