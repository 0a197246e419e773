package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// Approvers on two nodes who approve and reject one change at the same time: one of them
// decides, and the change is made once or not at all.
func TestDecisionsOnTwoNodes(t *testing.T) {
	url := dbtest.Postgres(t)
	var nodes [2]*Changes
	var tokens [2]*Tokens
	for i := range nodes {
		d, err := db.Open(t.Context(), db.Config{URL: url, Keys: db.NewMasterKey([32]byte{7})}, outbox.End())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if nodes[i], err = NewChanges(ChangesConfig{DB: d}); err != nil {
			t.Fatal(err)
		}
		tokens[i] = NewTokens(d)
	}
	approver := [2]Token{}
	for i := range approver {
		approver[i] = NewStoreToken("approver", client.RoleApprover, 1)
		ok(t, tokens[0].Create(t.Context(), approver[i], [32]byte{byte(i)}))
	}
	proposer := NewStoreToken("operator", client.RoleOperator, 1)
	ok(t, tokens[0].Create(t.Context(), proposer, [32]byte{9}))
	approved := 0
	for round := range 40 {
		made := NewStoreToken(fmt.Sprint("made ", round), client.RoleViewer, 1)
		content := fmt.Sprintf(`{"Token":{"ID":%q,"Role":"viewer"},"Hash":"%s"}`, made.ID, hashText(round))
		c := &Change{Kind: ChangeToken, Token: made.ID, Before: map[string]string{}, After: map[string]string{"role": "viewer"}, ProposedBy: proposer.ID, Proposed: db.Millis(100 + round)}
		if err := nodes[0].Propose(t.Context(), c, []byte(content)); err != nil || c.State != client.TaskOpen {
			t.Fatalf("%+v, %v", c, err)
		}
		acts := [2]func(context.Context) (Change, error){
			func(ctx context.Context) (Change, error) { return nodes[0].Approve(ctx, c.ID, approver[0], "", 200) },
			func(ctx context.Context) (Change, error) { return nodes[1].Approve(ctx, c.ID, approver[1], "", 200) },
		}
		if round%2 == 1 {
			acts[1] = func(ctx context.Context) (Change, error) {
				return nodes[1].Decline(ctx, c.ID, approver[1], "no", 200)
			}
		}
		var errs [2]error
		var both sync.WaitGroup
		for i := range acts {
			both.Go(func() { _, errs[i] = acts[i](t.Context()) })
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || errs[0] != nil && !errors.Is(errs[0], db.ErrConflict) || errs[1] != nil && !errors.Is(errs[1], db.ErrConflict) {
			t.Fatalf("round %d: %v and %v, want one done and one refused", round, errs[0], errs[1])
		}
		is, err := findChange(t.Context(), nodes[0].c.DB, c.ID)
		if err != nil || len(is.sealed)+len(is.dataKey) != 0 {
			t.Fatalf("%+v, %v", is, err)
		}
		_, err = tokens[0].ByID(t.Context(), made.ID)
		if (err == nil) != (is.State == client.TaskDone) {
			t.Errorf("round %d: the change is %s, the token %v", round, is.State, err)
		}
		if is.State == client.TaskDone {
			approved++
		}
	}
	t.Logf("%d of 40 were approved", approved)
}

// hashText is a hash in JSON.
func hashText(n int) string {
	return fmt.Sprintf("%02d%041d=", n, 0)
}
