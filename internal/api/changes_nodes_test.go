package api

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/lab/dbtest"
	"countersign/internal/outbox"
)

// A change ends when its proposer's token does, and after 14 days.
func TestChangesEnd(t *testing.T) {
	for name, url := range dbtest.Kinds {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			r := newQuorumRig(t, open(t, url(t), outbox.End()), ChangesConfig{})
			approver, proposer := r.token("approver", client.RoleApprover, nil), r.op
			r.op = r.token("short", client.RoleOperator, nil, func(k *Token) { k.Expires = 1000 })
			expired, _ := r.propose(500)
			dbtest.Fails(r.k.Approve(ctx, expired, approver, "", 1000))(t, db.ErrConflict, "")
			r.is(expired, 1000, client.TaskStale, 0)

			r.op = proposer
			late, _ := r.propose(2000)
			forgotten, _ := r.propose(3000)
			dbtest.Fails(r.k.Approve(ctx, late, approver, "", 2000+changeLife))(t, db.ErrConflict, "")
			r.is(late, 2000, client.TaskStale, 0)
			ok(t, r.k.EndOld(ctx, 3000+changeLife-1))
			r.is(forgotten, 3000, client.TaskOpen, 1, "approver")
			ok(t, r.k.EndOld(ctx, 3000+changeLife))
			r.is(forgotten, 3000, client.TaskStale, 0)
		})
	}
}

// Approvers on two nodes who approve and reject one change at the same time: one of them
// decides, and the change is made once or not at all.
func TestDecisionsOnTwoNodes(t *testing.T) {
	ctx, nodes := t.Context(), twoNodes(t)
	r := newQuorumRig(t, nodes[0], ChangesConfig{})
	other := must(NewChanges(ChangesConfig{DB: nodes[1]}))(t)
	ann, bob := r.token("ann", client.RoleApprover, nil), r.token("bob", client.RoleApprover, nil)
	approved := 0
	for round := range 40 {
		id, token := r.propose(db.Millis(100 + round))
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() { _, errs[0] = r.k.Approve(ctx, id, ann, "", 200) })
		both.Go(func() {
			if round%2 == 1 {
				_, errs[1] = other.Decline(ctx, id, bob, "no", 200)
			} else {
				_, errs[1] = other.Approve(ctx, id, bob, "", 200)
			}
		})
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), db.ErrConflict) {
			t.Fatalf("round %d: %v and %v, want one done and one refused", round, errs[0], errs[1])
		}
		is := must(findChange(ctx, r.d, id))(t)
		_, err := FindToken(ctx, r.d, token)
		if len(is.sealed)+len(is.dataKey) != 0 || (err == nil) != (is.State == client.TaskDone) {
			t.Errorf("round %d: the change is %s with %d sealed bytes, the token %v", round, is.State, len(is.sealed)+len(is.dataKey), err)
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
