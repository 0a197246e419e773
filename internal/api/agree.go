package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"countersign/internal/db"
)

// mostCould is the most names that Could returns.
const mostCould = 20

// Asked describes an approval that is needed: of what, by how many, and who may give it.
type Asked struct {
	// Needed is how many origins must agree. Below 1 means one.
	Needed int
	// By lists the tokens that asked for it. Their origins do not count. An id that is empty or unknown excludes
	// nobody.
	By []string
	// Made also admits a token that one of By made, or that made one of By, if their Roots differ.
	Made bool
	// Sees reports whether a token may see the thing. Nil: all may.
	Sees func(Token) bool
	// At is the time at which tokens are judged: now, or when the thing was decided.
	At db.Millis
	// Otherwise names another way out if nobody can agree. Nobody appends it to its advice to make a token.
	Otherwise string
}

// People holds the tokens of an end and the people who signed in, as of one moment.
type People struct {
	list []Token // the oldest first
	byID map[string]Token
}

// NewPeople returns the people of list, which must be in order of creation.
func NewPeople(list []Token) *People {
	p := &People{list, make(map[string]Token, len(list))}
	for _, t := range list {
		p.byID[t.ID] = t
	}
	return p
}

// ReadPeople reads all tokens of the database.
func ReadPeople(ctx context.Context, q db.Querier) (*People, error) {
	list, err := readTokens(ctx, q, ` ORDER BY created, id`)
	return NewPeople(list), err
}

// Name and Origin return those of a token. They are empty if the token is not known.
func (p *People) Name(id string) string   { return p.byID[id].Name }
func (p *People) Origin(id string) string { return p.byID[id].Root }

// Agreed says who agreed to a thing, who may still agree, and how many approvals are missing. Pages, calls and
// decisions all use it, so a page never offers what a call refuses.
type Agreed struct {
	Needed    int
	Approvals []JudgedApproval
	asked     Asked
	people    *People
	able      []Token // approvers whose approvals are not void by themselves
	counts    []Token // of able, one for each origin: these count
	could     []Token
	reach     int // how many would count if everybody who could agreed
}

// JudgedApproval is an approval and the reason why it does not count. Void is empty if it counts.
type JudgedApproval struct {
	db.Vote
	Void string
}

// Agree judges the approvals in the order they were given. It is pure.
//
// Each origin counts once, and not at all if it asked. The reason is that one person may hold two tokens if they
// share a Root, or if one made the other. If a token and one that it made both agree, the made one counts, so that no
// approval lowers what others are worth.
func (p *People) Agree(q Asked, votes []db.Vote) Agreed {
	q.Needed = max(q.Needed, 1)
	a := Agreed{Needed: q.Needed, asked: q, people: p}
	for _, v := range votes {
		t, known := p.byID[v.Token]
		void := "the token is not known"
		if known {
			void = p.barred(q, t)
		}
		if void == "" {
			a.able = append(a.able, t)
		}
		a.Approvals = append(a.Approvals, JudgedApproval{v, void})
	}
	a.counts = p.distinct(a.able, nil, "")
	for i := range a.Approvals {
		if g := &a.Approvals[i]; g.Void == "" && !holds(a.counts, g.Token) {
			g.Void = a.countedInstead(p.byID[g.Token])
		}
	}
	able := slices.Clone(a.able)
	for _, t := range p.list {
		if p.barred(q, t) == "" && !holds(able, t.ID) {
			able = append(able, t)
		}
	}
	a.reach = len(p.distinct(able, nil, ""))
	for _, t := range able[len(a.able):] {
		if a.helps(t, able) {
			a.could = append(a.could, t)
		}
	}
	return a
}

// barred returns why a token may not agree, whatever others do. It returns "" if the token may.
func (p *People) barred(q Asked, t Token) string {
	switch {
	case t.Revoked != 0 && t.Revoked <= q.At:
		return "the token was revoked"
	case t.Expires != 0 && t.Expires <= q.At:
		return "the token has expired"
	case !slices.Contains(Approvers, t.Role): // a person's role may change after the approval
		return "the token's holder is not an approver"
	case q.Sees != nil && !q.Sees(t):
		return "the token is bound to other merchants"
	case !p.traced(t):
		return "the token that made it is not known"
	}
	for _, id := range q.By {
		asker, known := p.byID[id]
		switch {
		case !known:
		case t.ID == asker.ID:
			return "it asked for this itself: another approver must agree"
		case t.Root == asker.Root, !q.Made && p.onePerson(t, asker):
			return fmt.Sprintf("it and %s, which asked for this, have the same origin, so one person may hold both: another approver must agree", asker.ID)
		}
	}
	return ""
}

// makers returns the tokens that t descends from, its direct maker first. It stops at a maker that is not known.
func (p *People) makers(t Token) (list []Token) {
	for len(list) < len(p.list) && t.made() {
		m, known := p.byID[t.Maker]
		if !known {
			break
		}
		list, t = append(list, m), m
	}
	return list
}

// made reports whether another token made t.
func (t Token) made() bool { return t.Maker != "" && t.Maker != t.ID }

// traced reports whether all tokens that t descends from are known.
func (p *People) traced(t Token) bool {
	all := append([]Token{t}, p.makers(t)...)
	return !all[len(all)-1].made()
}

// onePerson reports whether one person may hold both tokens. That is so if they share a Root, or if one made the
// other, directly or through other tokens.
func (p *People) onePerson(a, b Token) bool {
	return a.Root == b.Root || holds(p.makers(a), b.ID) || holds(p.makers(b), a.ID)
}

// distinct returns the largest subset of list in which no two tokens may belong to one person. Among subsets of that
// size it chooses one with the most tokens of preferred, and among those one that contains t, if there is one.
//
// Call two tokens related if one person may hold both. Two tokens that are both related to a third, which has at
// least as many makers as they have, are related to each other. The graph is therefore chordal, and one pass over the
// tokens, those with the most makers first, finds the subset (A. Frank, 1976, for weighted chordal graphs).
func (p *People) distinct(list, preferred []Token, t string) (taken []Token) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Token) int { return cmp.Compare(len(p.makers(b)), len(p.makers(a))) })
	worth := make([]int, len(list))
	var chosen []Token
	for i, x := range list {
		worth[i] += 2 * (len(list) + 1) // one more token outweighs everything added below
		if holds(preferred, x.ID) {
			worth[i] += 2
		}
		if x.ID == t {
			worth[i]++
		}
		if worth[i] <= 0 {
			continue
		}
		chosen = append(chosen, x)
		for j, other := range list[i+1:] {
			if p.onePerson(x, other) {
				worth[i+1+j] -= worth[i]
			}
		}
	}
	for _, x := range slices.Backward(chosen) {
		if !slices.ContainsFunc(taken, func(other Token) bool { return p.onePerson(x, other) }) {
			taken = append(taken, x)
		}
	}
	return taken
}

func holds(list []Token, id string) bool {
	return slices.ContainsFunc(list, func(t Token) bool { return t.ID == id })
}

// helps reports whether an approval of t leads to more approvals that count, at once or together with those that
// others can still give. able lists everybody who has agreed or may. Each approval that helps leads to the greatest
// possible number, so whoever agrees first never excludes somebody who is needed.
func (a *Agreed) helps(t Token, able []Token) bool {
	if with := append(slices.Clip(a.able), t); len(a.people.distinct(with, nil, "")) > len(a.counts) {
		return true
	}
	return a.reach > len(a.counts) && holds(a.people.distinct(able, a.able, t.ID), t.ID)
}

// countedInstead returns a text that names the approval that counts in place of t's. It returns "" if none does.
func (a *Agreed) countedInstead(t Token) string {
	for _, other := range a.counts {
		if a.people.onePerson(t, other) {
			return fmt.Sprintf("the token and %s, which approved it, have the same origin, so one person may hold both: another person must approve it", other.ID)
		}
	}
	return ""
}

// Missing returns how many approvals are missing.
func (a *Agreed) Missing() int { return max(a.Needed-len(a.counts), 0) }

// Enough reports whether no approval is missing.
func (a *Agreed) Enough() bool { return a.Missing() == 0 }

// Approved reports whether the token has approved it and its approval is not void.
func (a *Agreed) Approved(id string) bool { return holds(a.able, id) }

// WhyNot returns why a token may not approve it now. It returns "" if the token may.
func (a *Agreed) WhyNot(id string) string {
	t, known := a.people.byID[id]
	switch {
	case !known:
		return "the token is not known"
	case a.Approved(id) && a.Enough():
		return "it is approved"
	case a.Approved(id):
		return "the token has approved it: " + a.Short()
	}
	if why := a.people.barred(a.asked, t); why != "" || holds(a.could, id) {
		return why
	}
	return a.countedInstead(t)
}

// Refuse returns a *client.Problem with status 403 if an approval of the token would not count. It returns nil for a
// token that has approved already.
func (a *Agreed) Refuse(id string) error {
	if why := a.WhyNot(id); why != "" && !a.Approved(id) {
		return NewProblem(http.StatusForbidden, why)
	}
	return nil
}

// Short returns "N of M approvals count", for errors.
func (a *Agreed) Short() string {
	return fmt.Sprintf("%d of %d approvals count", len(a.counts), a.Needed)
}

// Nobody returns "" if the existing tokens can give the missing approvals. Otherwise it returns a text that says so
// and what to do.
func (a *Agreed) Nobody() string {
	if a.reach >= a.Needed {
		return ""
	}
	but := ""
	if by := slices.DeleteFunc(slices.Clone(a.asked.By), func(id string) bool { return id == "" }); len(by) > 0 {
		but = " and not with " + strings.Join(by, " or ")
	}
	who := fmt.Sprintf("it needs %d persons, and there are only %d who may approve it", a.Needed, a.reach)
	if a.reach == 0 {
		who = "there is nobody who may approve it"
	}
	return fmt.Sprintf("%s: make a token of role approver, with one that has not approved it%s (countersign token new)%s",
		who, but, a.asked.Otherwise)
}

// TellNow reports whether people must learn at once that approvals are missing: an approval no longer counts, or the
// existing tokens cannot give the missing ones.
func (a *Agreed) TellNow() bool {
	return !a.Enough() && (len(a.able) < len(a.Approvals) || a.reach < a.Needed)
}

// Could returns the names of the tokens that may give the missing approvals, at most 20.
func (a *Agreed) Could() (names []string) {
	for _, t := range a.could[:min(len(a.could), mostCould)] {
		names = append(names, t.Name)
	}
	return names
}

// Vote judges the new approval v together with votes, the earlier ones. keep reports whether v must be stored; with
// is the agreement with v. The error is a *client.Problem with status 403 if v does not count.
func (p *People) Vote(q Asked, votes []db.Vote, v db.Vote) (keep bool, with Agreed, err error) {
	before := p.Agree(q, votes)
	if before.Approved(v.Token) {
		return false, before, nil
	}
	if err := before.Refuse(v.Token); err != nil {
		return false, before, err
	}
	return true, p.Agree(q, append(slices.Clip(votes), v)), nil
}
