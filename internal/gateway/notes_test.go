package gateway

import (
	"net/http"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
)

// TestNotes: orders and deposits have notes of their own, which approvers add.
func TestNotes(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			r.deliver(countersigntest.Deposit(1))
			if _, err := r.app.AddOrder(ctx, client.NewOrder{CallBackID: "o/1", TenantUserID: "u", Address: "a", ChainName: "c", Symbol: "s", Amount: amount(t, "1")}); err != nil {
				t.Fatal(err)
			}
			approver, viewer := r.withRole(r.client.url, client.RoleApprover), r.withRole(r.client.url, client.RoleViewer)
			for i, text := range []string{"asked the user", strings.Repeat("ü", 2000)} {
				n, err := approver.NoteTask(ctx, "order.o/1", text)
				if err != nil || len(n.Votes) != i+1 || n.Votes[i].Note != text || n.Votes[i].Verdict != "" {
					t.Fatalf("%+v, %v", n, err)
				}
			}
			if n, err := approver.NoteTask(ctx, "deposit.1", "seen on the chain"); err != nil || len(n.Votes) != 1 {
				t.Fatalf("%+v, %v", n, err)
			}
			if list, err := viewer.Task(ctx, "order.o/1"); err != nil || len(list.Votes) != 2 || list.Votes[0].Note != "asked the user" {
				t.Errorf("%+v, %v", list, err)
			}
			if list, err := viewer.Task(ctx, "deposit.1"); err != nil || len(list.Votes) != 1 || list.Votes[0].Note != "seen on the chain" {
				t.Errorf("%+v, %v", list, err)
			}
			_, err := viewer.NoteTask(ctx, "order.o/1", "x")
			wantProblem(t, err, http.StatusForbidden)
			_, err = r.app.NoteTask(ctx, "deposit.1", "x")
			wantProblem(t, err, http.StatusForbidden)
			for _, text := range []string{"", " ", strings.Repeat("x", 2001)} {
				_, err = approver.NoteTask(ctx, "deposit.1", text)
				wantProblem(t, err, http.StatusUnprocessableEntity, "text")
			}
			_, err = approver.NoteTask(ctx, "order.none", "x")
			wantProblem(t, err, http.StatusNotFound)
			_, err = approver.Task(ctx, "deposit.9")
			wantProblem(t, err, http.StatusNotFound)
			page, err := r.client.Audit(ctx, client.FeedOptions{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, e := range page.Entries {
				all.Write(e.Record)
			}
			if strings.Count(all.String(), `"order.noted"`) != 2 || strings.Count(all.String(), `"deposit.noted"`) != 1 || !strings.Contains(all.String(), "seen on the chain") {
				t.Errorf("the audit log: %s", all.String())
			}
		})
	}
}
