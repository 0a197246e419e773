package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest/ready"
)

// Whoever writes tokens and approvals into the database without the master key makes none:
// they are as if absent, an alarm says so, and the rest goes on. Replacing the master key
// changes nothing of that.
func TestForgedRows(t *testing.T) { eachEnd(t, testForgedRows) }

func testForgedRows(t *testing.T, d *db.DB) {
	ctx, s := t.Context(), NewTokens(d)
	k, err := NewChanges(ChangesConfig{DB: d})
	if err != nil {
		t.Fatal(err)
	}
	by := func(n byte) [32]byte { return [32]byte{n} }
	admin, approver, other := NewStoreToken("admin", client.RoleAdmin, 1), NewStoreToken("approver", client.RoleApprover, 1), NewStoreToken("other", client.RoleViewer, 1)
	for i, token := range []Token{admin, approver, other} {
		if err := s.Create(ctx, token, by(byte(i))); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string, args ...any) {
		t.Helper()
		err := d.Write(ctx, func(ctx context.Context, x *db.Tx) error {
			_, err := x.Exec(ctx, text, args...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &Change{Kind: client.ChangeToken, Token: "tok_made", Before: map[string]string{}, After: map[string]string{"role": "viewer"}, ProposedBy: admin.ID, Proposed: 100}
	if err := k.Propose(ctx, c, fmt.Appendf(nil, `{"Token":{"ID":"tok_made","Role":"viewer"},"Hash":%q}`, hashText(77))); err != nil || c.State != client.ChangeWaiting {
		t.Fatalf("%+v, %v", c, err)
	}

	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	// A row of one's own, also with the MAC of another.
	write(`INSERT INTO tokens (id, name, role, hash, created, root, mac) SELECT 'tok_evil', name, 'admin', $1, created, root, mac FROM tokens WHERE id = $2`, []byte("12345678901234567890123456789012"), admin.ID)
	if _, err := s.ByHash(ctx, [32]byte([]byte("12345678901234567890123456789012"))); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a token that was inserted by hand: %v", err)
	}
	// Another role; and what was changed is not made genuine by a change.
	write(`UPDATE tokens SET role = 'admin' WHERE id = $1`, other.ID)
	if _, err := s.ByID(ctx, other.ID); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a token whose role was changed by hand: %v", err)
	}
	if err := s.Revoke(ctx, other.ID, 5, nil); !errors.Is(err, db.ErrConflict) {
		t.Errorf("revoking it: %v", err)
	}
	// An approver that was ended by hand leaves the rule as it is.
	write(`UPDATE tokens SET revoked = 1 WHERE id = $1`, approver.ID)
	if is, err := approverExists(ctx, d, 200, false); err != nil || !is {
		t.Errorf("an approver that was revoked by hand is gone: %v", err)
	}
	write(`UPDATE tokens SET revoked = 0 WHERE id = $1`, approver.ID)
	// An approval.
	write(`UPDATE changes SET state = 'approved', decided_by = $1, decided = 150, due = 150 WHERE id = $2`, approver.ID, c.ID)
	if err := k.ApplyDue(ctx, 200); err != nil {
		t.Error(err)
	}
	if _, err := s.ByID(ctx, "tok_made"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("an approval that was written by hand made a token: %v", err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		told := map[string]bool{}
		list, err := ready.Alarms(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			told[a.Subject] = a.Kind == client.AlarmRowForged
		}
		if told["tokens tok_evil"] && told["tokens "+other.ID] && told["tokens "+approver.ID] && told["changes "+c.ID] {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the alarms are %+v", list)
		}
	}

	// What was not touched goes on, under the next master key too.
	fresh := db.NewMasterKey([32]byte{8})
	if err := db.ReplaceMasterKey(ctx, d, db.NextMasterKey(d.MasterKey(), fresh), 300, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.EndMasterKeys(ctx, d, 301, nil); err != nil {
		t.Fatal(err)
	}
	write(`UPDATE changes SET state = 'waiting', decided_by = '', decided = 0, due = 0 WHERE id = $1`, c.ID)
	if got, err := k.Approve(ctx, c.ID, approver, 400); err != nil || got.State != client.ChangeApplied {
		t.Errorf("%+v, %v", got, err)
	}
	for _, id := range []string{admin.ID, approver.ID, "tok_made"} {
		if _, err := s.ByID(ctx, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
