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
	const week = warnBefore
	admin := NewStoreToken("admin", client.RoleAdmin, 1)
	made := byte(0)
	keep := func(token Token) Token {
		t.Helper()
		made++
		if err := s.Create(ctx, token, [32]byte{made}); err != nil {
			t.Fatal(err)
		}
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
	alarms := func(kind client.AlarmKind) (subjects []string) {
		t.Helper()
		list, _, err := d.AlarmsWhere(ctx, nil, client.AlarmFilter{Kind: kind}, 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(list)
		for _, a := range list {
			if _, err := d.AckAlarm(ctx, client.Alarm{Seq: a.Seq, AckedBy: "tok", Acked: a.First}); err != nil {
				t.Fatal(err)
			}
			subjects = append(subjects, a.Subject)
		}
		return subjects
	}
	warn := func(at db.Millis, want ...string) {
		t.Helper()
		if err := k.warnOfLast(ctx, at); err != nil {
			t.Error(err)
		}
		if got := alarms(client.AlarmApprovalWaits); !slices.Equal(got, want) {
			t.Errorf("at %d the alarms are about %q, want %q", at, got, want)
		}
	}
	keep(admin)
	propose(10, client.TaskDone)
	first, last := approver(3*week), approver(4*week)
	propose(20, client.TaskOpen)
	warn(3*week - 10)
	lastEnds := "token " + last.ID + " expires 1970-01-29T00:00:00Z"
	for range 2 {
		warn(4*week-10, lastEnds) // once, also after somebody has acknowledged it
	}
	propose(4*week+10, client.TaskOpen)
	for _, token := range []Token{first, last} {
		if err := s.Revoke(ctx, token.ID, 4*week+20, nil); err != nil {
			t.Fatal(err)
		}
	}
	propose(4*week+30, client.TaskOpen)
	warn(4*week+30, lastEnds)

	ended := func(want bool) {
		t.Helper()
		if list, err := d.StandingAlarms(ctx, client.AlarmApprovalWaits); err != nil || (len(list) == 0) != want {
			t.Errorf("%+v stand, %v; want ended: %v", list, err, want)
		}
	}
	ended(false) // nobody can decide
	third := approver(0)
	warn(5*week, lastEnds)
	ended(true)
	over, err := EndApprovers(ctx, d, 5*week)
	if want := []string{first.ID, last.ID, third.ID}; err != nil || !slices.Equal(over, slices.Sorted(slices.Values(want))) {
		t.Errorf("ended %q, %v; want %q", over, err, want)
	}
	if got, err := s.ByID(ctx, third.ID); err != nil || got.Revoked != 5*week {
		t.Errorf("%+v, %v", got, err)
	}
	if got := alarms(client.AlarmControlChanged); len(got) != 1 || got[0] != "no-approvers "+over[0] {
		t.Errorf("the end of the approvers is told as %q", got)
	}
	propose(5*week+10, client.TaskDone)
	if again, err := EndApprovers(ctx, d, 5*week+20); err != nil || len(again) != 0 {
		t.Errorf("again: %q, %v", again, err)
	}
	approver(0)
	propose(5*week+30, client.TaskOpen)
}
