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

	"countersign"
	"countersign/client"
	"countersign/countersigntest"
	"countersign/internal/db"
	"countersign/internal/policy"
)

// What people do through tasks, with what became of the thing.

func (u user) order(ctx context.Context, id string, err error) (client.Order, error) {
	if err != nil {
		return client.Order{}, err
	}
	return u.Order(ctx, id)
}

func (u user) ApproveOrder(ctx context.Context, id, reason string) (client.Order, error) {
	_, err := u.ApproveTask(ctx, client.TaskID(client.TaskOrder, id), reason)
	return u.order(ctx, id, err)
}

func (u user) DeclineOrder(ctx context.Context, id, reason string) (client.Order, error) {
	_, err := u.DeclineTask(ctx, client.TaskID(client.TaskOrder, id), reason)
	return u.order(ctx, id, err)
}

func (u user) OrderApproval(ctx context.Context, id string) (client.Task, error) {
	return u.Task(ctx, client.TaskID(client.TaskOrder, id))
}

func (u user) CreditDeposit(ctx context.Context, seq int64, reason string) (client.DepositEntry, error) {
	if _, err := u.ApproveTask(ctx, client.DepositTask(seq), reason); err != nil {
		return client.DepositEntry{}, err
	}
	return u.Deposit(ctx, seq)
}

func (u user) RejectDeposit(ctx context.Context, seq int64, reason string) (client.DepositEntry, error) {
	if _, err := u.DeclineTask(ctx, client.DepositTask(seq), reason); err != nil {
		return client.DepositEntry{}, err
	}
	return u.Deposit(ctx, seq)
}

func (u user) AcceptAddress(ctx context.Context, seq int64, reason string) (client.AddressEntry, error) {
	if _, err := u.ApproveTask(ctx, client.TaskID(client.TaskAddress, fmt.Sprint(seq)), reason); err != nil {
		return client.AddressEntry{}, err
	}
	return u.Address(ctx, seq)
}

func (u user) RejectAddress(ctx context.Context, seq int64, reason string) (client.AddressEntry, error) {
	if _, err := u.DeclineTask(ctx, client.TaskID(client.TaskAddress, fmt.Sprint(seq)), reason); err != nil {
		return client.AddressEntry{}, err
	}
	return u.Address(ctx, seq)
}

func (u user) RetryRefused(ctx context.Context, id int64, reason string) (client.RefusedCallback, error) {
	if _, err := u.ApproveTask(ctx, client.TaskID(client.TaskRefused, fmt.Sprint(id)), reason); err != nil {
		return client.RefusedCallback{}, err
	}
	return u.RefusedCallback(ctx, id)
}

func (u user) DismissRefused(ctx context.Context, id int64, reason string) (client.RefusedCallback, error) {
	if _, err := u.DeclineTask(ctx, client.TaskID(client.TaskRefused, fmt.Sprint(id)), reason); err != nil {
		return client.RefusedCallback{}, err
	}
	return u.RefusedCallback(ctx, id)
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
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), func(c *Config) { (&wordPolicy{effect: policy.Ask}).use(c) })
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
					if err != nil || len(p.Tasks) > limit {
						t.Fatal(len(p.Tasks), err)
					}
					for _, x := range p.Tasks {
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
			if p, err := approver.Tasks(ctx, client.TaskFilter{State: client.TaskDone}, client.PageOptions{}); err != nil || len(p.Tasks) != 1 || p.Tasks[0].ID != order {
				t.Errorf("done are %+v, %v", p.Tasks, err)
			}
			p, err := approver.Tasks(ctx, client.TaskFilter{State: client.TaskDeclined}, client.PageOptions{})
			if err != nil || len(p.Tasks) != 1 || p.Tasks[0].ID != whole[0] || len(p.Tasks[0].Votes) != 1 || p.Tasks[0].Votes[0].Verdict != "decline" || p.Tasks[0].Votes[0].Note != "no" || p.Tasks[0].Votes[0].Origin == "" {
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
}

// TestTwoTransfers: a held deposit whose amount or user differs from that of the first is said to be
// perhaps another transfer, and one that differs in nothing to be the same; both are shown.
func TestTwoTransfers(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			var of *countersign.Deposit
			told := func(trackingID string, change func()) {
				of = countersigntest.Deposit(1)
				of.TxIndex, of.TrackingID = -1, trackingID
				change()
				r.deliver(of)
			}
			told("first", func() {})
			for i, c := range []struct {
				name, says string
				change     func()
			}{
				{"same", "name the same transfer", func() {}},
				{"amount", "same transaction and address, another amount: perhaps two transfers; look at the chain", func() { of.Amount = amount(t, "77.5") }},
				{"user", "same transaction and address, another user: perhaps two transfers; look at the chain", func() { of.TenantUserID = "another" }},
				{"both", "another amount and user: perhaps two transfers", func() { of.Amount, of.TenantUserID = amount(t, "78.5"), "another" }},
			} {
				told(c.name, c.change)
				task, err := r.client.Task(t.Context(), client.DepositTask(int64(i+2)))
				if err != nil || !strings.Contains(task.Why, c.says) {
					t.Errorf("%s: %q, %+v, %v", c.name, task.Why, task.Content, err)
				}
				if strings.Contains(task.Why, "reject") || c.name != "same" && strings.Contains(task.Why, "the same transfer") {
					t.Errorf("%s: %q", c.name, task.Why)
				}
				differs := ""
				for _, m := range task.Content {
					if m.Name == "amount" && m.Beside == "" || m.Name == "user" && m.Beside == "" {
						t.Errorf("%s: the first is not shown: %+v", c.name, m)
					}
					if m.Differs() && (m.Name == "amount" || m.Name == "user") {
						differs += m.Name
					}
				}
				if want := map[string]string{"same": "", "both": "amountuser"}[c.name]; differs != want && differs != c.name {
					t.Errorf("%s: %q differ", c.name, differs)
				}
			}
		})
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
