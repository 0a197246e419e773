package api

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

// A change ends when its proposer's token does, and after 14 days.
func TestChangesEnd(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		r := newQuorumRig(t, d, ChangesConfig{})
		approver, proposer := r.token("approver", client.RoleApprover, nil), r.op
		r.op = r.token("short", client.RoleOperator, nil, func(k *Token) { k.Expires = 1000 })
		expired, _ := r.propose(500)
		dbtest.Fails(r.k.approve(ctx, expired, approver, "", 1000))(t, db.ErrConflict, "")
		r.is(expired, 1000, client.TaskStale, 0)

		r.op = proposer
		late, _ := r.propose(2000)
		forgotten, _ := r.propose(3000)
		dbtest.Fails(r.k.approve(ctx, late, approver, "", 2000+changeLife))(t, db.ErrConflict, "")
		r.is(late, 2000, client.TaskStale, 0)
		ok(t, r.k.EndOld(ctx, 3000+changeLife-1))
		r.is(forgotten, 3000, client.TaskOpen, 1, "approver")
		ok(t, r.k.EndOld(ctx, 3000+changeLife))
		r.is(forgotten, 3000, client.TaskStale, 0)
	})
}

// Three approvers on two nodes decide on one change at the same time, and in every other round the third declines it.
// Two approvals suffice. The change is made once or not at all, who comes later is told so, and nothing is left of what
// was sealed.
func TestDecisionsOnTwoNodes(t *testing.T) {
	ctx, nodes := t.Context(), twoNodes(t)
	r := newQuorumRig(t, nodes[0], ChangesConfig{Approvals: 2})
	at := [2]*Changes{r.k, must(NewChanges(ChangesConfig{DB: nodes[1], Approvals: 2}))(t)}
	people := [3]Token{r.token("ann", client.RoleApprover, nil), r.token("bob", client.RoleApprover, nil), r.token("carl", client.RoleApprover, nil)}
	states := map[client.TaskState]int{}
	for round := range 40 {
		id, token := r.propose(db.Millis(100 + round))
		var errs [3]error
		var all sync.WaitGroup
		for i, who := range people {
			all.Go(func() {
				if i == 2 && round%2 == 1 {
					_, errs[i] = at[i%2].decline(ctx, id, who, "no", 200)
				} else {
					_, errs[i] = at[i%2].approve(ctx, id, who, "", 200)
				}
			})
		}
		all.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				refused++
				dbtest.Fails(0, err)(t, db.ErrConflict, "")
			}
		}
		is := must(findChange(ctx, r.d, id))(t)
		states[is.State]++
		votes := must(r.k.kept(ctx, r.d, &is))(t)
		_, err := FindToken(ctx, r.d, token)
		made := is.State == client.TaskDone
		if kinds := recordsOf(t, r.d, id); made && !maps.Equal(kinds, map[string]int{recordProposed: 1, recordApproved: 1, recordDone: 1}) {
			t.Errorf("round %d: the log has %v", round, kinds)
		}
		if !made && (round%2 == 0 || is.State != client.TaskDeclined || errs[2] != nil) || made && (refused != 1 || len(votes) != 2) || len(is.sealed)+len(is.dataKey) != 0 || (err == nil) != made {
			t.Errorf("round %d: %s with %d approvals, %d sealed bytes, and the token: %v; %v", round, is.State, len(votes), len(is.sealed)+len(is.dataKey), err, errs)
		}
	}
	t.Log(states)
}

// recordsOf counts the records about a change by their kinds. The last approval is the record that it is done.
func recordsOf(t *testing.T, d *db.DB, id string) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	ok(t, db.Each(t.Context(), d, `SELECT r.body FROM audit_records r JOIN audit_subjects s ON s.seq = r.seq WHERE s.subject = $1`, []any{id}, func(r db.Rows) error {
		var b []byte
		err := r.Scan(&b)
		e, unread := journal.Read(b)
		kinds[e.Kind]++
		return errors.Join(err, unread)
	}))
	return kinds
}

// hashText is a hash in JSON.
func hashText(n int) string {
	return fmt.Sprintf("%02d%041d=", n, 0)
}
