package api

import (
	"context"
	"errors"

	"countersign/client"
	"countersign/internal/db"
)

// MaxApprovals bounds how many persons must approve a thing.
const MaxApprovals = 10

// secondTries bounds how often an approval is begun again because others gave or lost theirs
// meanwhile.
const secondTries = 5

var (
	errMissing = errors.New("approvals are missing")
	errEnough  = errors.New("the approvals suffice")
)

func aboutChange(id string) string { return "change/" + id }

// digest is of all of a change that people are shown and that stays.
func (c *Change) digest() string {
	return db.Digest(c.ID, c.Kind, c.Merchant, c.Version, c.Token, c.Before, c.After, c.ProposedBy, c.Proposed)
}

// agreed is who agrees to c, for tokens as they are at a time.
func (k *Changes) agreed(ctx context.Context, q db.Querier, c *Change, at db.Millis) (Agreed, error) {
	people, asked, given, err := k.ballot(ctx, q, c, at)
	if err != nil {
		return Agreed{}, err
	}
	return people.Agree(asked, given), nil
}

// ballot is what agreed judges.
func (k *Changes) ballot(ctx context.Context, q db.Querier, c *Change, at db.Millis) (*People, Asked, []db.Approval, error) {
	people, err := ReadPeople(ctx, q)
	if err != nil {
		return nil, Asked{}, nil, err
	}
	given, err := k.kept(ctx, q, c)
	return people, k.asked(c, at), given, err
}

// asked is what people must agree to before c is made. Before there is an approver one admin's token
// makes those of all persons, so what it proposes may be approved with these.
func (k *Changes) asked(c *Change, at db.Millis) Asked {
	return Asked{Needed: k.c.Approvals, By: []string{c.ProposedBy}, Made: true, Sees: c.visible, At: at,
		Otherwise: "; where that waits for the same persons, end the rule at the machine (countersign no-approvers)"}
}

// kept returns the approvals of c.
func (k *Changes) kept(ctx context.Context, q db.Querier, c *Change) ([]db.Approval, error) {
	return db.Approvals(ctx, q, aboutChange(c.ID), c.digest())
}

// approved is looked at in the transaction that approves or applies c: its DecidedBy may approve
// it, and with that approval there are enough, which count at this moment. The error is
// errMissing if there are not.
func (k *Changes) approved(ctx context.Context, t *db.Tx, c *Change, from client.ChangeState, now db.Millis) error {
	if _, err := proposerOf(ctx, t, c, now); err != nil {
		return err
	}
	_, agreed, err := k.add(ctx, t, c, from, now)
	switch {
	case err != nil:
		return err
	case agreed.Enough():
		return nil
	case from == client.ChangeApproved: // its time has come
		return staleError("since it was approved, approvals have lost their tokens, or more are needed: " + agreed.Short() + "; propose it again")
	}
	return errMissing
}

// add keeps the approval of c's DecidedBy, where it still waits, and judges all.
func (k *Changes) add(ctx context.Context, t *db.Tx, c *Change, from client.ChangeState, now db.Millis) (added bool, agreed Agreed, err error) {
	if _, err := t.Exec(ctx, lockChangeSQL, c.ID); err != nil { // approvals of one change wait for each other
		return false, agreed, err
	}
	people, asked, given, err := k.ballot(ctx, t, c, now)
	if err != nil {
		return false, agreed, err
	}
	if from != client.ChangeWaiting {
		return false, people.Agree(asked, given), nil
	}
	v := db.Approval{Token: c.DecidedBy, Name: people.byID[c.DecidedBy].Name, At: now, Reason: c.note}
	if added, agreed, err = people.Vote(asked, given, v); err == nil && added {
		err = db.PutApproval(ctx, t, aboutChange(c.ID), c.digest(), v)
	}
	return added, agreed, err
}

// second keeps an approval beside which others are missing: c goes on waiting. The error is
// errEnough if there are enough with it, so that c is to be applied, and nothing was kept.
func (k *Changes) second(ctx context.Context, c *Change, by Token, now db.Millis) error {
	var kept Change
	err := k.c.DB.Write(ctx, func(ctx context.Context, t *db.Tx) error {
		if _, err := t.Exec(ctx, lockChangeSQL, c.ID); err != nil { // it may be rejected meanwhile
			return err
		}
		is, err := findChange(ctx, t, c.ID)
		if err != nil {
			return err
		}
		if is.State != client.ChangeWaiting {
			return &db.ConflictError{Reason: "the change is " + string(is.State)}
		}
		is.DecidedBy, is.note = by.ID, c.note
		if _, err := proposerOf(ctx, t, &is, now); err != nil {
			return err
		}
		added, agreed, err := k.add(ctx, t, &is, client.ChangeWaiting, now)
		if err != nil {
			return err
		}
		if agreed.Enough() {
			return errEnough
		}
		is.DecidedBy = ""
		kept = is
		if !added { // it says it again
			return nil
		}
		return recordChange(ctx, t, recordApproved, &is, now)
	})
	if err == nil {
		*c = kept
	}
	return err
}

// Agreed returns who agrees to a change: now where it waits, else as it was when it was decided.
func (k *Changes) Agreed(ctx context.Context, id string, by Token, now db.Millis) (Agreed, error) {
	c, err := k.find(ctx, id, by)
	if err != nil {
		return Agreed{}, err
	}
	if c.State != client.ChangeWaiting {
		now = c.Decided
	}
	return k.agreed(ctx, k.c.DB, &c, now)
}
