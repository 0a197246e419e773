package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
	"countersign/merchant"
)

// TestDecideDeposits: held deposits are credited and rejected by a filter, first counted and then
// up to the number that the count gave, by who may decide on one.
func TestDecideDeposits(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			r := newRig(t, d.url(t), newService(t, countersigntest.ServiceConfig{}), nil)
			hold := func(n int) {
				again := countersigntest.Deposit(n)
				r.deliver(countersigntest.Deposit(n))
				again.TrackingID += "-again"
				r.deliver(again)
			}
			for n := range 6 {
				hold(n + 1)
			}
			user := countersigntest.Deposit(1).TenantUserID
			all := client.DecideDeposits{Filter: client.DepositSearch{State: client.DepositHeld}, Reason: "looked at", DryRun: true}
			approver := r.withRole(r.client.url, client.RoleApprover)
			dry, err := approver.CreditDeposits(ctx, all)
			if err != nil || dry.Count != 0 || dry.LeftOut != 6 || dry.UpTo != 12 || !dry.DryRun {
				t.Fatalf("%+v, %v", dry, err)
			}
			hold(7)
			all.DryRun, all.UpTo = false, 6
			done, err := approver.RejectDeposits(ctx, all)
			if err != nil || done.Count != 3 || done.UpTo != 6 || done.DryRun || done.More {
				t.Fatalf("%+v, %v", done, err)
			}
			all.UpTo, all.Filter = dry.UpTo, client.DepositSearch{TenantUserID: user}
			if done, err = approver.CreditDeposits(ctx, all); err != nil || done.Count != 0 {
				t.Fatalf("copies of one transfer were credited together: %+v, %v", done, err)
			}
			for _, seq := range []int64{8, 10, 12} {
				if _, err := approver.CreditDeposit(ctx, seq, "looked at"); err != nil {
					t.Fatal(err)
				}
			}
			all.Filter = client.DepositSearch{State: client.DepositHeld}
			var states []string
			for _, seq := range []int64{2, 4, 6, 8, 10, 12, 14} {
				d, err := r.client.Deposit(ctx, seq)
				if err != nil || d.State != client.DepositHeld && d.Reason != "looked at" {
					t.Errorf("%+v, %v", d, err)
				}
				states = append(states, string(d.State))
			}
			if want := []string{"rejected", "rejected", "rejected", "credited", "credited", "credited", "held"}; !slices.Equal(states, want) {
				t.Errorf("%q, want %q", states, want)
			}
			for _, role := range []client.Role{client.RoleViewer, client.RoleApp} {
				_, err = r.withRole(r.client.url, role).CreditDeposits(ctx, all)
				wantProblem(t, err, http.StatusForbidden)
			}
			_, err = approver.CreditDeposits(ctx, client.DecideDeposits{})
			wantProblem(t, err, http.StatusUnprocessableEntity, "filter", "at least one")
			_, err = approver.RejectDeposits(ctx, client.DecideDeposits{Filter: client.DepositSearch{State: client.DepositTaken}})
			wantProblem(t, err, http.StatusUnprocessableEntity, "filter.state")
			_, err = approver.RejectDeposits(ctx, client.DecideDeposits{Filter: client.DepositSearch{TxID: "x"}, UpTo: -1})
			wantProblem(t, err, http.StatusUnprocessableEntity, "upTo")
		})
	}
}

// TestRefusedTogether: refused callbacks are tried again by a filter after the setting is changed,
// each booked once, and the rest dismissed; questions are left alone.
func TestRefusedTogether(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			ctx := t.Context()
			service := newService(t, countersigntest.ServiceConfig{Unbound: true})
			strict := newRig(t, d.url(t), service, func(c *Config) { c.Callbacks.Profile.Binding = merchant.BindingRequired })
			for n := range 5 {
				strict.deliver(countersigntest.Deposit(n + 1))
			}
			strict.deliver(countersigntest.Withdrawal(1))
			strict.allRefused(6)
			filter := client.RefusedFilter{Reason: "not_bound"}
			dry, err := strict.client.RetryAllRefused(ctx, client.RetryRefused{Filter: filter, DryRun: true})
			if err != nil || dry.Count != 5 || dry.UpTo != 6 || !dry.DryRun || dry.Taken != 0 {
				t.Fatalf("%+v, %v", dry, err)
			}
			// Under the setting that refused them they are refused again, each with the reason.
			got, err := strict.client.RetryAllRefused(ctx, client.RetryRefused{Filter: filter})
			if err != nil || got.Count != 5 || got.Taken != 0 || got.Next != 0 || !slices.Equal(got.Again, []client.RefusedReason{{Reason: "not_bound", Count: 5}}) {
				t.Fatalf("%+v, %v", got, err)
			}
			lax := newRigOn(t, strict.db, service, func(c *Config) { c.Callbacks.Profile.Binding = merchant.BindingOff })
			got, err = lax.client.RetryAllRefused(ctx, client.RetryRefused{Filter: filter, After: 1, UpTo: 3, Reason: "mended"})
			if err != nil || got.Count != 2 || got.Taken != 2 || len(got.Again) != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			if list := lax.allDeposits(); len(list) != 2 || list[0].TrackingID != countersigntest.Deposit(2).TrackingID {
				t.Errorf("%+v", list)
			}
			if got, err = lax.client.RetryAllRefused(ctx, client.RetryRefused{Filter: filter, UpTo: dry.UpTo}); err != nil || got.Count != 3 || got.Taken != 3 {
				t.Fatalf("%+v, %v", got, err)
			}
			if list := lax.allDeposits(); len(list) != 5 {
				t.Errorf("%+v", list)
			}
			if got, err = lax.client.RetryAllRefused(ctx, client.RetryRefused{Filter: filter}); err != nil || got.Count != 0 || len(lax.allDeposits()) != 5 {
				t.Errorf("again: %+v, %v", got, err)
			}
			left, err := lax.client.DismissAllRefused(ctx, client.DismissRefused{Filter: filter, DryRun: true})
			if err != nil || left.Count != 1 || left.UpTo != 6 {
				t.Fatalf("%+v, %v", left, err)
			}
			if left, err = lax.client.DismissAllRefused(ctx, client.DismissRefused{Filter: filter, UpTo: 5}); err != nil || left.Count != 0 {
				t.Fatalf("%+v, %v", left, err)
			}
			if left, err = lax.client.DismissAllRefused(ctx, client.DismissRefused{Filter: filter, UpTo: 6, Reason: "not ours"}); err != nil || left.Count != 1 {
				t.Fatalf("%+v, %v", left, err)
			}
			var states []string
			for _, x := range lax.allRefused(6) {
				states = append(states, fmt.Sprint(x.State, " ", x.Note))
			}
			if want := []string{"dismissed not ours", "taken ", "taken ", "taken mended", "taken mended", "taken "}; !slices.Equal(states, want) {
				t.Errorf("%q, want %q", states, want)
			}
			viewer := lax.withRole(lax.client.url, client.RoleViewer)
			_, err = viewer.RetryAllRefused(ctx, client.RetryRefused{Filter: filter})
			wantProblem(t, err, http.StatusForbidden)
			_, err = viewer.DismissAllRefused(ctx, client.DismissRefused{Filter: filter})
			wantProblem(t, err, http.StatusForbidden)
			_, err = lax.client.RetryAllRefused(ctx, client.RetryRefused{})
			wantProblem(t, err, http.StatusUnprocessableEntity, "filter")
			_, err = lax.client.DismissAllRefused(ctx, client.DismissRefused{Filter: client.RefusedFilter{State: client.RefusedTaken}})
			wantProblem(t, err, http.StatusUnprocessableEntity, "filter.state")
		})
	}
}
