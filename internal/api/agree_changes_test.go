package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"countersign/client"
	"countersign/internal/db"
	"countersign/internal/journal"
	"countersign/internal/lab/dbtest"
)

// quorumRig is an end whose changes need several persons.
type quorumRig struct {
	t    *testing.T
	d    *db.DB
	k    *Changes
	op   Token
	made int
}

func newQuorumRig(t *testing.T, d *db.DB, c ChangesConfig) *quorumRig {
	c.DB = d
	k := must(NewChanges(c))(t)
	r := &quorumRig{t: t, d: d, k: k}
	r.op = r.token("operator", client.RoleOperator, nil)
	return r
}

// token makes a token, which another made if there is one, with what edit changes of it.
func (r *quorumRig) token(name string, role client.Role, maker *Token, edit ...func(*Token)) Token {
	r.t.Helper()
	token := NewStoreToken(name, role, db.Millis(r.made+1))
	if maker != nil {
		token.Maker, token.Root = maker.ID, maker.Root
	}
	for _, e := range edit {
		e(&token)
	}
	r.made++
	ok(r.t, r.k.tokens.Create(r.t.Context(), token, [32]byte{byte(r.made), byte(r.made >> 8)}))
	return token
}

// proposed proposes a token.
func (r *quorumRig) proposed(at db.Millis) *Change {
	r.t.Helper()
	r.made++
	made := NewStoreToken("made", client.RoleViewer, 1)
	c := &Change{Kind: ChangeToken, Token: made.ID, Before: map[string]string{}, After: map[string]string{"role": "viewer"}, ProposedBy: r.op.ID, Proposed: at}
	content := fmt.Appendf(nil, `{"Token":{"ID":%q,"Role":"viewer"},"Hash":%q}`, made.ID, hashText(r.made%100))
	ok(r.t, r.d.Write(r.t.Context(), func(ctx context.Context, t *db.Tx) error { return r.k.Propose(ctx, t, c, content) }))
	return c
}

// propose proposes a token that waits, and gives the change and the token.
func (r *quorumRig) propose(at db.Millis) (id, token string) {
	r.t.Helper()
	c := r.proposed(at)
	if c.State != client.TaskOpen {
		r.t.Fatalf("%+v", c)
	}
	return c.ID, c.Token
}

// is looks at the state of a change, and at how many are missing.
func (r *quorumRig) is(id string, now db.Millis, want client.TaskState, missing int, could ...string) {
	r.t.Helper()
	c := must(findChange(r.t.Context(), r.d, id))(r.t)
	agreed, err := r.agreed(&c, now)
	counts := c.State != client.TaskOpen || agreed.Missing() == missing && slices.Equal(agreed.Could(), could)
	if err != nil || c.State != want || !counts {
		r.t.Errorf("the change is %s (%s) with %+v, %v; want %s with %d missing, who could be %q", c.State, c.Reason, agreed.Approvals, err, want, missing, could)
	}
}

func (r *quorumRig) agreed(c *Change, now db.Millis) (Agreed, error) {
	people, err := ReadPeople(r.t.Context(), r.d)
	if err != nil {
		return Agreed{}, err
	}
	return r.k.agreed(r.t.Context(), c, people, now)
}

// approve approves a change, which is in a state then.
func (r *quorumRig) approve(id string, by Token, at db.Millis, want client.TaskState) Change {
	r.t.Helper()
	c, err := r.k.approve(r.t.Context(), id, by, "", at)
	if err != nil || c.State != want {
		r.t.Fatalf("%+v, %v; want it %s", c, err, want)
	}
	return c
}

// A change takes effect when as many persons have approved it as the end wants, each of another origin.
// TestRevokedPersonComesAgain has approvals of who was revoked since.
func TestQuorumOfChanges(t *testing.T) { eachDatabase(t, testQuorumOfChanges) }

func testQuorumOfChanges(t *testing.T, d *db.DB) {
	ctx := t.Context()
	r := newQuorumRig(t, d, ChangesConfig{Approvals: 2})
	ann, bob := r.token("ann", client.RoleApprover, nil), r.token("bob", client.RoleApprover, nil)
	second := r.token("ann again", client.RoleAdmin, &ann)
	made := r.token("by bob", client.RoleAdmin, nil, func(k *Token) { k.Maker = bob.ID })

	id, token := r.propose(100)
	r.is(id, 100, client.TaskOpen, 2, "ann", "bob", "ann again", "by bob")
	r.approve(id, ann, 110, client.TaskOpen)
	r.is(id, 110, client.TaskOpen, 1, "bob", "by bob")
	r.approve(id, ann, 120, client.TaskOpen) // again changes nothing
	dbtest.Fails(r.k.approve(ctx, id, second, "", 120))(t, client.ErrForbidden, "")
	dbtest.Fails(r.k.approve(ctx, id, r.op, "", 120))(t, client.ErrForbidden, "")
	c := must(findChange(ctx, d, id))(t)
	if agreed, err := r.agreed(&c, 120); err != nil || agreed.WhyNot(ann.ID) == "" {
		t.Errorf("%+v, %v: ann is not told that she has approved it", agreed, err)
	}
	dbtest.Fails(FindToken(ctx, d, token))(t, db.ErrNotFound, "")
	if c := r.approve(id, bob, 130, client.TaskDone); c.DecidedBy != bob.ID {
		t.Errorf("%+v", c)
	}
	must(FindToken(ctx, d, token))(t)
	dbtest.Fails(r.k.approve(ctx, id, made, "", 140))(t, db.ErrConflict, "")

	// One who says no ends it, also one who had said yes.
	id, _ = r.propose(200)
	r.approve(id, ann, 210, client.TaskOpen)
	if c, err := r.k.decline(ctx, id, ann, "I was wrong", 220); err != nil || c.State != client.TaskDeclined {
		t.Errorf("%+v, %v", c, err)
	}
	dbtest.Fails(r.k.approve(ctx, id, bob, "", 230))(t, db.ErrConflict, "")
}

// TestRevokedPersonComesAgain: what a thief did with a person's session is void for ever, also once
// that person has signed in again; what she does from then on counts.
func TestRevokedPersonComesAgain(t *testing.T) { eachDatabase(t, testRevokedPersonComesAgain) }

func testRevokedPersonComesAgain(t *testing.T, d *db.DB) {
	ctx := t.Context()
	r := newQuorumRig(t, d, ChangesConfig{Approvals: 2})
	bob := r.token("bob", client.RoleApprover, nil)
	signsIn := func(p person, at db.Millis) (is Token) {
		t.Helper()
		ok(t, d.Write(ctx, func(ctx context.Context, x *db.Tx) (err error) {
			is, err = savePerson(ctx, x, p, true, at)
			return err
		}))
		return is
	}
	revoke := func(id string, at db.Millis) {
		t.Helper()
		ok(t, r.k.tokens.Revoke(ctx, id, at, nil))
	}
	eve := person{Subject: "https://idp eve", Name: "eve", Role: client.RoleApprover}
	ann := signsIn(eve, 50)
	op := person{Subject: "https://idp olga", Name: "olga", Role: client.RoleOperator}
	olga := signsIn(op, 51)

	id, _ := r.propose(100)
	r.approve(id, ann, 110, client.TaskOpen)
	r.op = olga
	proposed, _ := r.propose(111)
	revoke(ann.ID, 120)
	revoke(olga.ID, 120)
	ann, olga = signsIn(eve, 130), signsIn(op, 130)
	r.is(id, 140, client.TaskOpen, 2, "bob", "eve")
	c := must(findChange(ctx, d, id))(t)
	if a := must(r.agreed(&c, 140))(t); a.Approvals[0].Void != "the token was revoked" || !a.TellNow() {
		t.Errorf("what the thief approved: %+v", a.Approvals)
	}
	r.approve(id, bob, 150, client.TaskOpen) // what the thief approved does not count again
	if c, err := r.k.approve(ctx, proposed, bob, "", 150); !errors.Is(err, db.ErrConflict) || c.State != client.TaskStale {
		t.Errorf("%+v, %v: what the thief proposed counts again", c, err)
	}
	r.approve(id, ann, 160, client.TaskDone)
	// The same after another revocation; a second sign-in is the same row.
	revoke(ann.ID, 200)
	if again := signsIn(eve, 210); again.Revoked != 0 || again.ID == ann.ID || again.Root != ann.Root || signsIn(eve, 220).ID != again.ID {
		t.Errorf("%+v", again)
	}
}

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
