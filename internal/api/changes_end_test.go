package api

import (
	"errors"
	"fmt"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
	"countersign/internal/outbox"
)

// A change ends when its proposer's token does, and after 14 days.
func TestChangesEnd(t *testing.T) {
	for name, url := range ready.Kinds(outbox.End()) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d, err := db.Open(ctx, db.Config{URL: url(t), Keys: db.NewMasterKey([32]byte{7})}, outbox.End())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			k := must(NewChanges(ChangesConfig{DB: d}))(t)
			proposer, approver := NewStoreToken("proposer", client.RoleOperator, 1), NewStoreToken("approver", client.RoleApprover, 1)
			short := NewStoreToken("short", client.RoleOperator, 1)
			short.Expires = 1000
			for i, token := range []Token{proposer, approver, short} {
				ok(t, k.tokens.Create(ctx, token, [32]byte{byte(i)}))
			}
			propose := func(by Token, at db.Millis) string {
				t.Helper()
				made := NewStoreToken("made", client.RoleViewer, 1)
				c := &Change{Kind: ChangeToken, Token: made.ID, Before: map[string]string{}, After: map[string]string{"role": "viewer"}, ProposedBy: by.ID, Proposed: at}
				content := fmt.Sprintf(`{"Token":{"ID":%q,"Role":"viewer"},"Hash":%q}`, made.ID, hashText(int(at%97)))
				if err := k.Propose(ctx, c, []byte(content)); err != nil || c.State != client.TaskOpen {
					t.Fatalf("%+v, %v", c, err)
				}
				return c.ID
			}
			state := func(id string, want client.TaskState) {
				t.Helper()
				if c, err := findChange(ctx, d, id); err != nil || c.State != want {
					t.Errorf("the change is %s (%s), %v; want %s", c.State, c.Reason, err, want)
				}
			}
			expired := propose(short, 500)
			if _, err := k.Approve(ctx, expired, approver, "", 1000); !errors.Is(err, db.ErrConflict) {
				t.Errorf("approved what an expired token had proposed: %v", err)
			}
			state(expired, client.TaskStale)

			late, forgotten := propose(proposer, 2000), propose(proposer, 3000)
			if _, err := k.Approve(ctx, late, approver, "", 2000+changeLife); !errors.Is(err, db.ErrConflict) {
				t.Errorf("approved after 14 days: %v", err)
			}
			state(late, client.TaskStale)
			if err := k.EndOld(ctx, 3000+changeLife-1); err != nil {
				t.Error(err)
			}
			state(forgotten, client.TaskOpen)
			if err := k.EndOld(ctx, 3000+changeLife); err != nil {
				t.Error(err)
			}
			state(forgotten, client.TaskStale)

			// What was acknowledged is told again when it happens again.
			for range 3 {
				ok(t, d.RaiseAlarm(ctx, client.Alarm{Kind: client.AlarmFrozen, Subject: "x", First: 100}))
			}
			list, err := ready.Alarms(ctx, d)
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			must(d.AckAlarm(ctx, client.Alarm{Seq: list[0].Seq, AckedBy: "tok", Acked: 150}))(t)
			ok(t, d.RaiseAlarm(ctx, client.Alarm{Kind: client.AlarmFrozen, Subject: "x", First: 200}))
			if list, err = ready.Alarms(ctx, d); err != nil || len(list) != 2 {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}
