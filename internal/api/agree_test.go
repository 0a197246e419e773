package api

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"countersign/client"
	"countersign/internal/db"
)

// drawPeople makes tokens as an end makes them: each by nobody or by an earlier one, of which it
// has the origin if an approver was there.
func drawPeople(t *rapid.T) []Token {
	roles := []client.Role{client.RoleApprover, client.RoleApprover, client.RoleAdmin, client.RoleCore}
	list := make([]Token, rapid.IntRange(1, 9).Draw(t, "tokens"))
	for i := range list {
		id := fmt.Sprint("t", i)
		k := Token{ID: id, Name: id, Root: id, Role: rapid.SampledFrom(roles).Draw(t, "role"), Created: db.Millis(i)}
		if maker := rapid.IntRange(-1, i-1).Draw(t, "maker"); maker >= 0 {
			k.Maker = list[maker].ID
			if rapid.Bool().Draw(t, "where an approver was") {
				k.Root = list[maker].Root
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "ended") == 0 {
			k.Revoked = 5
		}
		list[i] = k
	}
	return list
}

// most returns how many of list there can be without two of one origin, by trying all choices.
func most(p *People, list []Token) int {
	if len(list) == 0 {
		return 0
	}
	rest := slices.DeleteFunc(slices.Clone(list[1:]), func(t Token) bool { return p.onePerson(t, list[0]) })
	return max(most(p, list[1:]), 1+most(p, rest))
}

// TestAgree: what is missing can be given by those who are offered, whoever comes first, or the
// answer says that nobody can; what is not offered is refused; no two of those that count, and none
// beside whoever asked, may be one person; and an order of approvals counts as every other.
func TestAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawPeople(t)
		p := NewPeople(list)
		q := Asked{Needed: rapid.IntRange(0, 4).Draw(t, "needed"), Made: rapid.Bool().Draw(t, "made"), At: 10,
			By: []string{rapid.SampledFrom(list).Draw(t, "asker").ID}}
		var votes []db.Vote
		for range len(list) + 1 {
			a := p.Agree(q, votes)
			if got := len(p.distinct(a.able, nil, "")); got != most(p, a.able) || got != len(a.counts) {
				t.Fatalf("%d of %+v count, %d could", got, a.able, most(p, a.able))
			}
			for i, one := range a.counts {
				asker := p.byID[q.By[0]]
				if one.Revoked != 0 || one.Root == asker.Root || !q.Made && p.onePerson(one, asker) {
					t.Fatalf("%+v counts, and %+v asked", one, asker)
				}
				for _, other := range a.counts[:i] {
					if p.onePerson(one, other) {
						t.Fatalf("%+v and %+v both count", one, other)
					}
				}
			}
			mixed := slices.Clone(votes)
			rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			if again := p.Agree(q, mixed); again.Missing() != a.Missing() || again.Nobody() != a.Nobody() {
				t.Fatalf("in another order %d are missing, not %d", again.Missing(), a.Missing())
			}
			for _, k := range list {
				keep, with, err := p.Vote(q, votes, db.Vote{Token: k.ID, At: 9})
				offered := holds(a.could, k.ID)
				if keep != offered || (err == nil) != (offered || a.Approved(k.ID)) || with.Missing() > a.Missing() {
					t.Fatalf("%s is offered: %v, kept: %v, %v; %d missing, then %d", k.ID, offered, keep, err, a.Missing(), with.Missing())
				}
				if (a.WhyNot(k.ID) == "") != offered {
					t.Fatalf("%s is offered: %v, but %q", k.ID, offered, a.WhyNot(k.ID))
				}
			}
			if a.Enough() || a.Nobody() != "" {
				return
			}
			if len(a.could) == 0 {
				t.Fatalf("%d are missing, nobody is offered, and it is not said", a.Missing())
			}
			votes = append(votes, db.Vote{Token: rapid.SampledFrom(a.could).Draw(t, "who").ID, At: 9})
		}
		t.Fatalf("all who were offered agreed, and %+v is not enough", p.Agree(q, votes))
	})
}

// TestNobodyStandsInTheWay: a token that approved is the maker of two others, one of its Root and one
// of its own. Only both together are more than it alone, so each of them is offered.
func TestNobodyStandsInTheWay(t *testing.T) {
	role := client.RoleApprover
	p := NewPeople([]Token{{ID: "ann", Root: "ann", Role: role}, {ID: "same", Root: "ann", Maker: "ann", Role: role}, {ID: "own", Root: "own", Maker: "ann", Role: role},
		{ID: "again", Root: "again", Maker: "own", Role: role}})
	for _, first := range []string{"same", "own", "again"} {
		q, votes := Asked{Needed: 2, At: 10}, []db.Vote{{Token: "ann", At: 1}}
		for _, id := range []string{first, map[string]string{"same": "own"}[first]} {
			if id == "" {
				id = "same"
			}
			keep, _, err := p.Vote(q, votes, db.Vote{Token: id, At: 2})
			if err != nil || !keep {
				t.Fatalf("%s first, then %s: %v, %v", first, id, keep, err)
			}
			votes = append(votes, db.Vote{Token: id, At: 2})
		}
		if a := p.Agree(q, votes); !a.Enough() {
			t.Errorf("%s first: %+v", first, a.Approvals)
		}
	}
}
