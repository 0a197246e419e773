package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"countersign/client"
	"countersign/internal/db"
)

// mostCould bounds the names of those who may approve.
const mostCould = 20

// Quorum is how many persons must approve a thing, and who of them have.
type Quorum struct {
	Needed int
	Given  []GivenApproval
	counts []Token // the tokens whose approvals count
}

// GivenApproval is an approval, and why it does not count; empty: it does.
type GivenApproval struct {
	db.Approval
	Void string
}

// Kin reports whether one person may hold both tokens: one of them has the origin of the other, or
// was made by it, or by a token that it made, and so on.
func Kin(ctx context.Context, q db.Querier, a, b Token) (bool, error) {
	kin, err := ComesFrom(ctx, q, a, b)
	if err != nil || kin {
		return kin, err
	}
	return ComesFrom(ctx, q, b, a)
}

// QuorumOf judges the approvals of a thing, which needs so many, at a time: that of the last of
// them for what is approved, else now. An approval by a token that had ended by then does not
// count, nor one by a token of the origin of an earlier one. barred says why a token may not
// approve the thing at all, empty: it may; nil bars none.
func QuorumOf(ctx context.Context, q db.Querier, needed int, list []db.Approval, at db.Millis, barred func(Token) (string, error)) (Quorum, error) {
	out := Quorum{Needed: max(needed, 1)}
	for _, a := range list {
		void, t, err := out.judge(ctx, q, a.Token, at, barred)
		if err != nil {
			return out, err
		}
		if void == "" {
			out.counts = append(out.counts, t)
		}
		out.Given = append(out.Given, GivenApproval{a, void})
	}
	return out, nil
}

// judge says why an approval by a token does not count beside those that do.
func (k *Quorum) judge(ctx context.Context, q db.Querier, id string, at db.Millis, barred func(Token) (string, error)) (void string, t Token, err error) {
	t, err = FindToken(ctx, q, id)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return "the token is not known", t, nil
	case err != nil:
		return "", t, err
	case t.Revoked != 0 && t.Revoked <= at:
		return "the token was revoked before the last approval", t, nil
	case t.Expires != 0 && t.Expires <= at:
		return "the token had expired before the last approval", t, nil
	case !slices.Contains(Approvers, t.Role): // a person's role may change after the approval
		return "whoever gave it is no approver any more", t, nil
	}
	if void, err = k.kinOf(ctx, q, t); void == "" && err == nil && barred != nil {
		void, err = barred(t)
	}
	return void, t, err
}

// kinOf says whose approval counts already that may be the same person's; empty: nobody's.
func (k *Quorum) kinOf(ctx context.Context, q db.Querier, t Token) (string, error) {
	for _, other := range k.counts {
		kin, err := Kin(ctx, q, t, other)
		if err != nil || kin {
			return fmt.Sprintf("the token and %s, which approved it, have one origin, so one person may hold both", other.ID), err
		}
	}
	return "", nil
}

// Missing is how many approvals are missing.
func (k *Quorum) Missing() int { return max(k.Needed-len(k.counts), 0) }

// Enough reports whether the approvals suffice.
func (k *Quorum) Enough() bool { return k.Missing() == 0 }

// counted reports whether the approval of a token counts.
func (k *Quorum) counted(id string) bool {
	for _, t := range k.counts {
		if t.ID == id {
			return true
		}
	}
	return false
}

// Refuse fails, with a *client.Problem of status 403, where the approval of t would not count
// beside those that do. That of a token which approved already is no error.
func (k *Quorum) Refuse(ctx context.Context, q db.Querier, t Token) error {
	if k.counted(t.ID) {
		return nil
	}
	kin, err := k.kinOf(ctx, q, t)
	if err == nil && kin != "" {
		err = NewProblem(http.StatusForbidden, kin+": another person's approval is missing")
	}
	return err
}

// Waits says that a token has approved it, and others are missing; empty: it has not, or none are.
func (k *Quorum) Waits(id string) string {
	if !k.counted(id) || k.Enough() {
		return ""
	}
	return "the token has approved it: " + k.Short()
}

// Short says what is missing, for errors.
func (k *Quorum) Short() string {
	return fmt.Sprintf("%d of %d approvals count", len(k.counts), k.Needed)
}

// LastAt is the time of the last approval; 0: there is none.
func LastAt(list []db.Approval) db.Millis {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].At
}

// Shown is the quorum as the API shows it.
func (k *Quorum) Shown() *client.Approvals {
	out := &client.Approvals{Needed: k.Needed, Missing: k.Missing(), Given: []client.Approval{}}
	for _, a := range k.Given {
		out.Given = append(out.Given, client.Approval{Token: a.Token, Name: a.Name, At: TimeOf(a.At), Reason: a.Reason, Void: a.Void})
	}
	return out
}

// Could gives the names of tokens that may give what is missing, at most 20. may are the roles
// that approve; sees says whether a token is there for the thing; barred is as of QuorumOf.
func (k *Quorum) Could(ctx context.Context, q db.Querier, now db.Millis, sees func(Token) bool, barred func(Token) (string, error)) ([]string, error) {
	if k.Enough() {
		return nil, nil
	}
	list, _, err := allTokens(ctx, q, ` ORDER BY created, id`)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range list {
		if t.Role != client.RoleApprover && t.Role != client.RoleAdmin || !sees(t) || k.counted(t.ID) {
			continue
		}
		void, _, err := k.judge(ctx, q, t.ID, now, barred)
		if err != nil {
			return nil, err
		}
		if void == "" {
			names = append(names, t.Name)
		}
		if len(names) == mostCould {
			break
		}
	}
	return names, nil
}
