package gateway

import (
	"net/http"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
)

// TestNotes: orders and deposits have notes of their own, which the log has too.
func TestNotes(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		ctx := t.Context()
		r.deliver(countersigntest.Deposit(1))
		o := newOrder(1)
		o.CallBackID = "o/1"
		if _, err := r.app.AddOrder(ctx, o); err != nil {
			t.Fatal(err)
		}
		approver, viewer := r.withRole(r.client.url, client.RoleApprover), r.withRole(r.client.url, client.RoleViewer)
		texts := map[string][]string{"order.o/1": {"asked the user", strings.Repeat("ü", 2000)}, "deposit.1": {"seen on the chain"}}
		for id, list := range texts {
			for i, text := range list {
				if n, err := approver.NoteTask(ctx, id, text); err != nil || len(n.Votes) != i+1 {
					t.Fatalf("%+v, %v", n, err)
				}
			}
			task, err := viewer.Task(ctx, id)
			if err != nil || len(task.Votes) != len(list) || task.Votes[0].Note != list[0] || task.Votes[0].Verdict != "" {
				t.Errorf("%+v, %v", task, err)
			}
		}
		_, err := approver.NoteTask(ctx, "deposit.1", " ")
		wantProblem(t, err, http.StatusUnprocessableEntity, "text")
		for _, id := range []string{"order.none", "deposit.9"} {
			_, err = approver.NoteTask(ctx, id, "x")
			wantProblem(t, err, http.StatusNotFound)
		}
		if r.records(`"order.noted"`) != 2 || r.records(`"deposit.noted"`) != 1 || r.records("seen on the chain") != 1 {
			t.Error("the audit log has other notes")
		}
	})
}
