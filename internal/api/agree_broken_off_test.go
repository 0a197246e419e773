package api

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
)

// TestBrokenOffWhileApproving: wherever approvals of a change are broken off, the approval and the change are kept
// together or not at all. The next call goes on: each person counts once, and each change is made once.
func TestBrokenOffWhileApproving(t *testing.T) { eachDatabase(t, testBrokenOff) }

func testBrokenOff(t *testing.T, d *db.DB) {
	r := newQuorumRig(t, d, ChangesConfig{Approvals: 2})
	ann, bob := r.token("ann", client.RoleApprover, nil), r.token("bob", client.RoleApprover, nil)
	states := map[client.TaskState]int{}
	longest := 4 * time.Millisecond
	for i := range 60 {
		id, token := r.propose(db.Millis(100 + i))
		for _, by := range []Token{ann, bob} {
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(longest))
			_, _ = r.k.approve(ctx, id, by, "", 200)
			cancel()
		}
		c := must(findChange(t.Context(), d, id))(t)
		states[c.State]++
		list := must(r.k.kept(t.Context(), d, &c))(t)
		if _, found := FindToken(t.Context(), d, token); (found == nil) != (c.State == client.TaskDone) || c.State == client.TaskOpen && len(list) > 1 || c.State != client.TaskOpen && len(list) != 2 {
			t.Errorf("%s is %s with %d approvals, and its token: %v", id, c.State, len(list), found)
		}
		for _, by := range []Token{ann, ann, bob, bob} {
			if _, err := r.k.approve(t.Context(), id, by, "", 300); err != nil && !errors.Is(err, db.ErrConflict) {
				t.Fatal(err)
			}
		}
		checkOnce(t, d, id, token)
	}
	t.Log(states)
}

// checkOnce looks at the approvals and at the records of a change that two persons have approved.
func checkOnce(t *testing.T, d *db.DB, id, token string) {
	t.Helper()
	c := must(findChange(t.Context(), d, id))(t)
	list := must(db.Votes(t.Context(), d, aboutChange(id), c.digest()))(t)
	if c.State != client.TaskDone || len(list) != 2 || list[0].Token == list[1].Token {
		t.Errorf("%s is %s with %+v", id, c.State, list)
	}
	kinds := map[string]int{}
	ok(t, db.Each(t.Context(), d, `SELECT r.body FROM audit_records r JOIN audit_subjects s ON s.seq = r.seq WHERE s.subject = $1`, []any{id}, func(r db.Rows) error {
		var b []byte
		err := r.Scan(&b)
		told, unread := journal.Read(b)
		kinds[told.Kind]++
		return errors.Join(err, unread)
	}))
	// The last approval is the record that it is done.
	if want := map[string]int{recordProposed: 1, recordApproved: 1, recordDone: 1}; !maps.Equal(kinds, want) {
		t.Errorf("the log has %v of %s, want %v", kinds, id, want)
	}
	must(FindToken(t.Context(), d, token))(t)
}
