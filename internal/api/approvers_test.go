package api

import (
	"slices"
	"testing"

	"countersign/client"
	"countersign/internal/db"
)

// Two persons do not become one when the last approver's token expires or is revoked: changes
// wait until somebody at the machine ends that.
func TestChangesGoOnWaiting(t *testing.T) { eachDatabase(t, testChangesGoOnWaiting) }

func testChangesGoOnWaiting(t *testing.T, d *db.DB) {
	const week = 7 * 24 * 3_600_000
	ctx, r := t.Context(), newQuorumRig(t, d, ChangesConfig{})
	approver := func(expires db.Millis) Token {
		return r.token("approver", client.RoleApprover, nil, func(k *Token) { k.Expires = expires })
	}
	propose := func(at db.Millis, want client.TaskState) {
		t.Helper()
		if c := r.proposed(at); c.State != want {
			t.Errorf("at %d: %s; want %s", at, c.State, want)
		}
	}
	propose(10, client.TaskDone)
	first, last := approver(3*week), approver(4*week)
	propose(20, client.TaskOpen)
	propose(4*week+10, client.TaskOpen)
	for _, token := range []Token{first, last} {
		ok(t, r.k.tokens.Revoke(ctx, token.ID, 4*week+20, nil))
	}
	propose(4*week+30, client.TaskOpen)
	third := approver(0)
	over, err := EndApprovers(ctx, d, 5*week)
	if want := []string{first.ID, last.ID, third.ID}; err != nil || !slices.Equal(over, slices.Sorted(slices.Values(want))) {
		t.Errorf("ended %q, %v; want %q", over, err, want)
	}
	if got, err := FindToken(ctx, d, third.ID); err != nil || got.Revoked != 5*week {
		t.Errorf("%+v, %v", got, err)
	}
	if told, err := d.StandingAlarms(ctx, client.AlarmControlChanged); err != nil || len(told) != 1 || told[0].Subject != "no-approvers "+over[0] {
		t.Errorf("the end of the approvers is told as %+v, %v", told, err)
	}
	propose(5*week+10, client.TaskDone)
	if again, err := EndApprovers(ctx, d, 5*week+20); err != nil || len(again) != 0 {
		t.Errorf("again: %q, %v", again, err)
	}
	approver(0)
	propose(5*week+30, client.TaskOpen)
}
