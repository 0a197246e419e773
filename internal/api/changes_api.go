package api

import (
	"context"
	"errors"

	"countersign/client"
	"countersign/internal/db"
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
		all, err := k.List(c.R.Context(), q.ChangeFilter, c.Token, q.Cursor, q.Limit+1)
		if len(all) > q.Limit {
			all = all[:q.Limit]
			out.Next = &all[q.Limit-1].ID
		}
		out.Changes = append(out.Changes, all...)
		return out, err
	})
}

// List returns the changes before a cursor, the newest first, that a token may see.
func (k *Changes) List(ctx context.Context, f client.ChangeFilter, by Token, cursor string, limit int) (out []client.ChangeEntry, err error) {
	list, err := listChanges(ctx, k.c.DB, f, by.BoundTo(), cursor, limit)
	for i := range list {
		out = append(out, list[i].Shown())
	}
	return out, err
}

// show is the handler that shows one change.
func (k *Changes) show() Handler {
	return One(func(c *Call, id string, _ None) (client.ChangeEntry, error) {
		return k.Show(c.R.Context(), id, c.Token, c.Now)
	})
}

// Show returns one change, with who approved it and whether it is stale, if there is one for the
// token.
func (k *Changes) Show(ctx context.Context, id string, by Token, now db.Millis) (out client.ChangeEntry, err error) {
	change, err := k.find(ctx, id, by)
	if err != nil {
		return out, err
	}
	if out, err = k.shown(ctx, &change, now); err != nil || !change.open() {
		return out, err
	}
	if err = k.stale(ctx, &change, now); errors.Is(err, ErrStale) {
		out.Stale, err = err.Error(), nil
	}
	return out, err
}

// MayNot says why a token may not approve a change now; empty: it may.
func (k *Changes) MayNot(ctx context.Context, id string, by Token, now db.Millis) (string, error) {
	change, err := k.find(ctx, id, by)
	if err != nil {
		return "", err
	}
	return k.whyNotApproved(ctx, change, by.ID, now)
}
