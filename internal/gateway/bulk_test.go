package gateway

import (
	"slices"
	"strings"
	"testing"

	"countersign/client"
	"countersign/countersigntest"
)

// TestManyDeposits: held deposits are decided many at once, first counted, each with its own result;
// copies of one transfer are credited by themselves alone.
func TestManyDeposits(t *testing.T) {
	eachRig(t, nil, func(t *testing.T, r *rig) {
		ctx := t.Context()
		for n := range 7 {
			again := countersigntest.Deposit(n + 1)
			r.deliver(countersigntest.Deposit(n + 1))
			again.TrackingID += "-again"
			r.deliver(again)
		}
		approver := r.withRole(r.client.url, client.RoleApprover)
		all := client.DecideTasks{IDs: approver.open(t, client.TaskDeposit), Reason: "looked at", DryRun: true}
		if len(all.IDs) != 7 {
			t.Fatalf("%q", all.IDs)
		}
		dry, err := approver.ApproveTasks(ctx, all)
		if err != nil || dry.Done != 0 || dry.LeftOut != 7 || !dry.DryRun || !strings.Contains(dry.Tasks[0].Why, "by itself") {
			t.Fatalf("%+v, %v", dry, err)
		}
		if dry, err = approver.DeclineTasks(ctx, all); err != nil || dry.Done != 7 || dry.LeftOut != 0 || len(approver.open(t, client.TaskDeposit)) != 7 {
			t.Fatalf("%+v, %v", dry, err)
		}
		all.DryRun = false
		done, err := approver.ApproveTasks(ctx, all)
		if err != nil || done.Done != 0 || done.LeftOut != 7 {
			t.Fatalf("copies of one transfer were credited together: %+v, %v", done, err)
		}
		some := client.DecideTasks{IDs: append(seqIDs(2, 4, 6, 1, 99, 2), "order.none", "none"), Reason: "looked at"}
		done, err = approver.DeclineTasks(ctx, some)
		if err != nil || done.Done != 3 || len(done.Tasks) != 8 || done.DryRun {
			t.Fatalf("%+v, %v", done, err)
		}
		for i, x := range done.Tasks {
			if x.ID != some.IDs[i] || x.Done != (i < 3) || x.Done != (x.Why == "") {
				t.Errorf("%+v", x)
			}
		}
		for _, seq := range []int64{8, 10, 12} {
			if _, err := approver.CreditDeposit(ctx, seq, "looked at"); err != nil {
				t.Fatal(err)
			}
		}
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
	})
}
