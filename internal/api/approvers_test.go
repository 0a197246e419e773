package api

import (
	"fmt"
	"slices"
	"testing"

	"countersign/client"
	"countersign/internal/db"
)

// Two persons do not become one when the last approver's token expires or is revoked: changes
// wait until somebody at the machine ends that.
func TestChangesGoOnWaiting(t *testing.T) { eachEnd(t, testChangesGoOnWaiting) }

func testChangesGoOnWaiting(t *testing.T, d *db.DB) {
	ctx, s := t.Context(), NewTokens(d)
	k, err := NewChanges(ChangesConfig{DB: d})
	if err != nil {
		t.Fatal(err)
	}
	const week = 7 * 24 * 3_600_000
	admin := NewStoreToken("admin", client.RoleAdmin, 1)
	made := byte(0)
	keep := func(token Token) Token {
		t.Helper()
		made++
		ok(t, s.Create(ctx, token, [32]byte{made}))
		return token
	}
	approver := func(expires db.Millis) Token {
		t.Helper()
		token := NewStoreToken("approver", client.RoleApprover, 1)
		token.Expires = expires
		return keep(token)
	}
	propose := func(at db.Millis, want client.TaskState) {
		t.Helper()
		token := NewStoreToken("made", client.RoleViewer, 1)
		c := &Change{Kind: ChangeToken, Token: token.ID, Before: map[string]string{}, After: map[string]string{"role": "viewer"}, ProposedBy: admin.ID, Proposed: at}
		made++
		if err := k.Propose(ctx, c, fmt.Appendf(nil, `{"Token":{"ID":%q,"Role":"viewer"},"Hash":%q}`, token.ID, hashText(int(made)))); err != nil || c.State != want {
			t.Errorf("at %d: %s, %v; want %s", at, c.State, err, want)
		}
	}
	keep(admin)
	propose(10, client.TaskDone)
	first, last := approver(3*week), approver(4*week)
	propose(20, client.TaskOpen)
	propose(4*week+10, client.TaskOpen)
	for _, token := range []Token{first, last} {
		ok(t, s.Revoke(ctx, token.ID, 4*week+20, nil))
	}
	propose(4*week+30, client.TaskOpen)
	third := approver(0)
	over, err := EndApprovers(ctx, d, 5*week)
	if want := []string{first.ID, last.ID, third.ID}; err != nil || !slices.Equal(over, slices.Sorted(slices.Values(want))) {
		t.Errorf("ended %q, %v; want %q", over, err, want)
	}
	if got, err := s.ByID(ctx, third.ID); err != nil || got.Revoked != 5*week {
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
