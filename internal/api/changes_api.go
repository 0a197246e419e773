package api

import (
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
	return onOneChange(k, func(c *Call, id string, _ None) (Change, error) {
		if change, err := k.find(c.R.Context(), id, c.Token); err != nil {
			return change, err
		}
		defer c.ForgetTokens() // the change may revoke one
		return k.Approve(c.R.Context(), id, c.Token, c.Now)
	})
}

// approval is the handler that says why the caller may not approve a change.
func (k *Changes) approval() Handler {
	return One(func(c *Call, id string, _ None) (out client.MayApprove, err error) {
		change, err := k.find(c.R.Context(), id, c.Token)
		if err == nil {
			out.MayNot, err = k.whyNotApproved(c.R.Context(), change, c.Token.ID, c.Now)
		}
		return out, err
	})
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
