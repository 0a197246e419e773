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

// quorum judges the approvals of c at a time. They are list.
func (k *Changes) quorum(ctx context.Context, q db.Querier, c *Change, list []db.Approval, at db.Millis) (Quorum, error) {
	barred, err := k.barred(ctx, q, c)
	if err != nil {
		return Quorum{}, err
	}
	return QuorumOf(ctx, q, k.c.Approvals, list, at, barred)
}

// barred says why a token may not approve c: it proposed it, or has the origin of the one that did.
func (k *Changes) barred(ctx context.Context, q db.Querier, c *Change) (func(Token) (string, error), error) {
	proposer, err := FindToken(ctx, q, c.ProposedBy)
	return func(t Token) (string, error) {
		switch {
		case t.ID == c.ProposedBy:
			return errOwnChange.Detail, nil
		case t.Root == proposer.Root:
			return errSameOrigin.Detail, nil
		}
		return "", nil
	}, err
}

// kept gives the approvals of c.
func (k *Changes) kept(ctx context.Context, q db.Querier, c *Change) ([]db.Approval, error) {
	return db.Approvals(ctx, q, aboutChange(c.ID), c.digest())
}

// refuseKin refuses the approval of a token whose origin has approved the change already.
func (k *Changes) refuseKin(ctx context.Context, q db.Querier, c *Change, by string, now db.Millis) error {
	list, err := k.kept(ctx, q, c)
	if err != nil || len(list) == 0 {
		return err
	}
	quorum, err := k.quorum(ctx, q, c, list, now)
	if err != nil {
		return err
	}
	t, err := FindToken(ctx, q, by)
	if err != nil {
		return err
	}
	return quorum.Refuse(ctx, q, t)
}

// given says that a token has approved c, and others are missing; empty: it has not.
func (k *Changes) given(ctx context.Context, c *Change, by string, now db.Millis) (string, error) {
	list, err := k.kept(ctx, k.c.DB, c)
	if err != nil || len(list) == 0 {
		return "", err
	}
	quorum, err := k.quorum(ctx, k.c.DB, c, list, now)
	return quorum.Waits(by), err
}

// approved is looked at in the transaction that approves or applies c: its DecidedBy may approve
// it, and with that approval there are enough, which count at this moment. The error is
// errMissing if there are not.
func (k *Changes) approved(ctx context.Context, t *db.Tx, c *Change, from client.ChangeState, now db.Millis) error {
	if err := k.mayApprove(ctx, t, c, c.DecidedBy, now); err != nil {
		return err
	}
	_, quorum, err := k.add(ctx, t, c, from, now)
	switch {
	case err != nil:
		return err
	case quorum.Enough():
		return nil
	case from == client.ChangeApproved: // its time has come
		return staleError("since it was approved, approvals have lost their tokens, or more are needed: " + quorum.Short() + "; propose it again")
	}
	return errMissing
}

// add keeps the approval of c's DecidedBy, where it still waits, and judges all.
func (k *Changes) add(ctx context.Context, t *db.Tx, c *Change, from client.ChangeState, now db.Millis) (added bool, quorum Quorum, err error) {
	if _, err := t.Exec(ctx, lockChangeSQL, c.ID); err != nil { // approvals of one change wait for each other
		return false, quorum, err
	}
	list, err := k.kept(ctx, t, c)
	if err == nil && from == client.ChangeWaiting {
		if quorum, err = k.quorum(ctx, t, c, list, now); err != nil {
			return false, quorum, err
		}
		by, err := FindToken(ctx, t, c.DecidedBy)
		if err == nil {
			err = quorum.Refuse(ctx, t, by)
		}
		if err != nil {
			return false, quorum, err
		}
		if list, added, err = db.AddApproval(ctx, t, aboutChange(c.ID), c.digest(), db.Approval{Token: by.ID, Name: by.Name, At: now}); err != nil {
			return false, quorum, err
		}
	}
	if err == nil {
		quorum, err = k.quorum(ctx, t, c, list, now)
	}
	return added, quorum, err
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
		is.DecidedBy = by.ID
		if err := k.mayApprove(ctx, t, &is, by.ID, now); err != nil {
			return err
		}
		added, quorum, err := k.add(ctx, t, &is, client.ChangeWaiting, now)
		if err != nil {
			return err
		}
		if quorum.Enough() {
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

// shown is c with who has approved it and who is missing.
func (k *Changes) shown(ctx context.Context, c *Change, now db.Millis) (client.ChangeEntry, error) {
	out := c.Shown()
	list, err := k.kept(ctx, k.c.DB, c)
	if err != nil || len(list) == 0 && c.State != client.ChangeWaiting {
		return out, err
	}
	at := now
	if !c.open() || c.State == client.ChangeApproved {
		at = LastAt(list)
	}
	quorum, err := k.quorum(ctx, k.c.DB, c, list, at)
	if err != nil {
		return out, err
	}
	out.Approvals = quorum.Shown()
	if c.State == client.ChangeWaiting {
		barred, err := k.barred(ctx, k.c.DB, c)
		if err != nil {
			return out, err
		}
		out.Approvals.Could, err = quorum.Could(ctx, k.c.DB, now, c.visible, barred)
		return out, err
	}
	out.Approvals.Missing = 0
	return out, nil
}
