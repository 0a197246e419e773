package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"countersign/client"
	"countersign/internal/db"
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
	ok(r.t, r.k.proposeToken(r.t.Context(), c, fmt.Appendf(nil, `{"Token":{"ID":%q,"Role":"viewer"},"Hash":%q}`, made.ID, hashText(r.made%100))))
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
