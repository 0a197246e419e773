package api

import (
	"cmp"
	"errors"

	"countersign/client"
)

// changeQuery selects a page of changes.
type changeQuery struct {
	client.ChangeFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"most entries to answer, 1 to 1,000"`
	Cursor string `query:"cursor" maxLength:"100" doc:"the member next of the previous page, at most 100 characters; absent: the first page"`
}

// list is the handler that lists changes. A bound token finds those of its merchants.
func (k *Changes) list() Handler {
	return Handle(func(c *Call, q changeQuery, _ None) (client.ChangePage, error) {
		out := client.ChangePage{Changes: []client.ChangeEntry{}}
		all, err := listChanges(c.R.Context(), k.c.DB, q.ChangeFilter, c.Token.BoundTo(), q.Cursor, q.Limit+1)
		if err != nil {
			return out, err
		}
		if len(all) > q.Limit {
			all = all[:q.Limit]
			out.Next = &all[q.Limit-1].ID
		}
		for i := range all {
			out.Changes = append(out.Changes, all[i].Shown())
		}
		return out, nil
	})
}

// show is the handler that shows one change.
func (k *Changes) show() Handler {
	return One(func(c *Call, id string, _ None) (out client.ChangeEntry, err error) {
		change, err := k.find(c.R.Context(), id, c.Token)
		if err != nil {
			return out, err
		}
		if out, err = k.shown(c.R.Context(), &change, c.Now); err != nil || !change.open() {
			return out, err
		}
		if err = k.stale(c.R.Context(), &change, c.Now); errors.Is(err, ErrStale) {
			out.Stale, err = err.Error(), nil
		}
		return out, err
	})
}

// approveOne is the handler that approves a change.
func (k *Changes) approveOne() Handler {
	return onOneChange(k, func(c *Call, id string, in client.SignedAct) (Change, error) {
		change, err := k.find(c.R.Context(), id, c.Token)
		if err != nil {
			return change, err
		}
		ctx, _, err := k.Passkeys().Signed(c, recordApproved, id, signedPart(&change), in.Passkey)
		if err != nil {
			return change, err
		}
		defer c.ForgetTokens() // the change may revoke one
		return k.Approve(ctx, id, c.Token, c.Now)
	})
}

// statement is the handler that gives what an approval must be signed with.
func (k *Changes) statement() Handler {
	return One(func(c *Call, id string, _ None) (client.Statement, error) {
		change, err := k.find(c.R.Context(), id, c.Token)
		if err != nil {
			return client.Statement{}, err
		}
		out, err := k.Passkeys().Statement(c, recordApproved, id, signedPart(&change))
		if err == nil {
			why, unknown := k.whyNotApproved(c.R.Context(), change, c.Token.ID, c.Now)
			out.MayNot, err = cmp.Or(why, out.MayNot), unknown
		}
		return out, err
	})
}

// Passkeys are those of the end's tokens; of nil there are none.
func (k *Changes) Passkeys() Passkeys {
	if k == nil {
		return Passkeys{}
	}
	return Passkeys{k.tokens}
}

// signedPart is what a person with passkeys signs: all of a change that people are shown
// and that does not change when it is decided.
func signedPart(c *Change) changeRecord {
	return changeRecord{Kind: c.Kind, Merchant: c.Merchant, Token: c.Token, Before: c.Before, After: c.After, ProposedBy: c.ProposedBy}
}

// rejectOne is the handler that rejects a change.
func (k *Changes) rejectOne() Handler {
	return onOneChange(k, func(c *Call, id string, in client.Decide) (Change, error) {
		return k.Reject(c.R.Context(), id, c.Token, in.Reason, c.Now)
	})
}

func onOneChange[In any](k *Changes, act func(c *Call, id string, in In) (Change, error)) Handler {
	return One(func(c *Call, id string, in In) (client.ChangeEntry, error) {
		change, err := act(c, id, in)
		if err != nil {
			return change.Shown(), err
		}
		return k.shown(c.R.Context(), &change, c.Now)
	})
}
